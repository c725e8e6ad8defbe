"""Runs and datasets that events changed since alerts were last evaluated; the size is bounded.

The writer only adds ids, so ingest is not delayed. Failed runs come first. Only some of the others
are evaluated between two rounds of the timer, which evaluates everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from headwater.catalog.ingest import Projection

_MAX_FAILED = 10_000
_MAX_OTHERS = 1_000
_FAILED_STATES = ("FAILED", "ABORTED")


class EvaluationQueue:
    """Ids to evaluate. Ids that do not fit are left to the timer."""

    def __init__(self) -> None:
        self.failed: dict[UUID, None] = {}
        self.runs: dict[UUID, None] = {}
        self.datasets: dict[UUID, None] = {}

    def add(self, rows: Projection, *, datasets: bool) -> bool:
        """Add the ids that a transaction stored, and return whether a run failed."""
        failed = [key for key, row in rows.runs.items() if row.end_state in _FAILED_STATES]
        self.add_failed(failed)
        for key in rows.runs:
            if len(self.runs) >= _MAX_OTHERS:
                break
            self.runs[key] = None
        if datasets:
            for key in rows.datasets:
                if len(self.datasets) >= _MAX_OTHERS:
                    break
                self.datasets[key] = None
        return bool(failed)

    def add_failed(self, runs: Iterable[UUID]) -> None:
        for key in runs:
            if len(self.failed) < _MAX_FAILED:
                self.failed[key] = None

    def take(self, limit: int) -> tuple[list[UUID], list[UUID]]:
        """Remove and return all failed runs and `limit` others at most, and `limit` datasets."""
        failed, self.failed = list(self.failed), {}
        runs = failed + [self.runs.popitem()[0] for _ in range(min(limit, len(self.runs)))]
        datasets = [self.datasets.popitem()[0] for _ in range(min(limit, len(self.datasets)))]
        return runs, datasets

    def __bool__(self) -> bool:
        return bool(self.failed or self.runs or self.datasets)
