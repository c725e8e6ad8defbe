"""Headwater's own run facets: `headwater_offsets` and `headwater_progress`.

Their JSON Schemas ship with the package: `headwater/catalog/facets/OffsetRangesRunFacet.json` and
`ProgressRunFacet.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.catalog.ingest.checks import Checks

_MAX_RANGES = 10_000
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1
# Sums over a hundred thousand runs still fit a bigint.
_MAX_COUNT = 2**46
_OFFSETS_PATH = "run.facets.headwater_offsets"
_PROGRESS_PATH = "run.facets.headwater_progress"
# Keys of the progress facet, in the order of the fields of `Progress`.
_PROGRESS_KEYS = (
    "rowsIn",
    "rowsOut",
    "rowsWithLineage",
    "lateRows",
    "deadLettered",
    "orderViolations",
    "eventsLost",
    "lag",
)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records `first` to `last`, both included, that a batch read or wrote."""

    namespace: str
    topic: str
    partition: int
    first: int
    last: int
    output: bool
    batch: int
    job_version: str | None


def read_offsets(facet: Any, checks: Checks) -> list[OffsetRange]:
    """The offset ranges that a micro-batch read and wrote. Every invalid field is reported."""
    if facet is None:
        return []
    path = _OFFSETS_PATH
    body = checks.object(facet, path)
    batch = _number(body.get("batch"), f"{path}.batch", _MAX_OFFSET, checks)
    version = body.get("jobVersion")
    if version is not None:
        version = checks.name(version, f"{path}.jobVersion")
    ranges: list[OffsetRange] = []
    for key, output in (("inputs", False), ("outputs", True)):
        listed = checks.list(body.get(key), f"{path}.{key}")
        if len(listed) > _MAX_RANGES:
            checks.fail(f"{path}.{key} has more than {_MAX_RANGES} ranges")
            continue
        for i, each in enumerate(listed):
            where = f"{path}.{key}[{i}]"
            one = checks.object(each, where)
            first = _number(one.get("first"), f"{where}.first", _MAX_OFFSET, checks)
            last = _number(one.get("last"), f"{where}.last", _MAX_OFFSET, checks)
            if last < first:
                checks.fail(f"{where}.last must not be below first")
            ranges.append(
                OffsetRange(
                    checks.name(one.get("namespace"), f"{where}.namespace"),
                    checks.name(one.get("topic"), f"{where}.topic"),
                    _number(one.get("partition"), f"{where}.partition", _MAX_PARTITION, checks),
                    first,
                    last,
                    output,
                    batch,
                    version,
                )
            )
    return ranges


def _number(value: Any, path: str, maximum: int, checks: Checks) -> int:
    if type(value) is int and 0 <= value <= maximum:
        return value
    checks.fail(f"{path} must be an integer from 0 to {maximum}")
    return 0


@dataclass(slots=True)
class Progress:
    """Counts since the start of the run; None if the run does not report the count."""

    rows_in: int | None = None
    rows_out: int | None = None
    rows_with_lineage: int | None = None
    late_rows: int | None = None
    dead_lettered: int | None = None
    order_violations: int | None = None
    events_lost: int | None = None
    lag: int | None = None
    lag_at: datetime | None = None

    def add(self, other: Progress) -> None:
        """Merge: counts are cumulative, so the maximum is kept; of the lag, the latest value."""
        for each in fields(self)[:7]:
            known, new = getattr(self, each.name), getattr(other, each.name)
            if new is not None:
                setattr(self, each.name, new if known is None else max(known, new))
        if other.lag is not None and other.lag_at is not None:
            if self.lag_at is None or (self.lag_at, self.lag or 0) < (other.lag_at, other.lag):
                self.lag, self.lag_at = other.lag, other.lag_at


def read_progress(facet: Any, at: datetime, checks: Checks) -> Progress | None:
    """The record counts of a run. Every invalid field is reported."""
    if facet is None:
        return None
    body = checks.object(facet, _PROGRESS_PATH)
    progress = Progress()
    for key, each in zip(_PROGRESS_KEYS, fields(progress), strict=False):
        value = body.get(key)
        if value is not None and not (type(value) is int and 0 <= value <= _MAX_COUNT):
            checks.fail(f"{_PROGRESS_PATH}.{key} must be an integer from 0 to {_MAX_COUNT}")
            value = None
        setattr(progress, each.name, value)
    progress.lag_at = at if progress.lag is not None else None
    return progress
