"""The run facet `headwater_offsets`: which records a micro-batch read and wrote.

Its JSON Schema ships with the package: `headwater/catalog/facets/OffsetRangesRunFacet.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.catalog.ingest.checks import Checks

_MAX_RANGES = 10_000
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1


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
    """The ranges of a facet; notes every field that is wrong."""
    if facet is None:
        return []
    path = "run.facets.headwater_offsets"
    found = checks.object(facet, path)
    batch = _number(found.get("batch"), f"{path}.batch", _MAX_OFFSET, checks)
    version = found.get("jobVersion")
    if version is not None:
        version = checks.name(version, f"{path}.jobVersion")
    ranges: list[OffsetRange] = []
    for key, output in (("inputs", False), ("outputs", True)):
        listed = checks.list(found.get(key), f"{path}.{key}")
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


def _number(value: Any, path: str, most: int, checks: Checks) -> int:
    if type(value) is int and 0 <= value <= most:
        return value
    checks.fail(f"{path} must be a whole number from 0 to {most}")
    return 0
