"""What events have touched since alerts were last evaluated, in sets that can't grow without end.

The writer only adds ids here: taking events is not slowed down. Failed runs come first; of the rest
only so many are looked at between two rounds of the timer, which looks at everything anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from headwater.catalog.ingest import Projection

_MAX_FAILED = 10_000
_MAX_OTHERS = 1_000
_BAD_ENDS = ("FAILED", "ABORTED")


class EvaluationQueue:
    """Ids that wait for an evaluation. What does not fit is found by the timer."""

    def __init__(self) -> None:
        self.failed: dict[UUID, None] = {}
        self.runs: dict[UUID, None] = {}
        self.datasets: dict[UUID, None] = {}

    def add(self, rows: Projection, *, datasets: bool) -> bool:
        """Note what a transaction has stored; whether a run has failed."""
        bad = [key for key, row in rows.runs.items() if row.end_state in _BAD_ENDS]
        self.add_failed(bad)
        for key in rows.runs:
            if len(self.runs) >= _MAX_OTHERS:
                break
            self.runs[key] = None
        if datasets:
            for key in rows.datasets:
                if len(self.datasets) >= _MAX_OTHERS:
                    break
                self.datasets[key] = None
        return bool(bad)

    def add_failed(self, runs: Iterable[UUID]) -> None:
        for key in runs:
            if len(self.failed) < _MAX_FAILED:
                self.failed[key] = None

    def take(self, most: int) -> tuple[list[UUID], list[UUID]]:
        """All failed runs and some others; some datasets. They are gone from here."""
        failed, self.failed = list(self.failed), {}
        runs = failed + [self.runs.popitem()[0] for _ in range(min(most, len(self.runs)))]
        datasets = [self.datasets.popitem()[0] for _ in range(min(most, len(self.datasets)))]
        return runs, datasets

    def __bool__(self) -> bool:
        return bool(self.failed or self.runs or self.datasets)
