"""The run facet `headwater_progress`: how many records a run has read, written and set aside.

Its JSON Schema ships with the package: `headwater/catalog/facets/ProgressRunFacet.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.catalog.ingest.checks import Checks

# Sums of a hundred thousand runs still fit the database's numbers.
_MOST = 2**46
_PATH = "run.facets.headwater_progress"
# Names in the facet, in the order of the fields below.
_KEYS = (
    "rowsIn",
    "rowsOut",
    "rowsWithLineage",
    "lateRows",
    "deadLettered",
    "orderViolations",
    "eventsLost",
    "lag",
)


@dataclass(slots=True)
class Progress:
    """Counts since the run began; None where it did not tell."""

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
        """Counts only grow: the greater is the later. A lag is a level: the later word holds."""
        for each in fields(self)[:7]:
            known, said = getattr(self, each.name), getattr(other, each.name)
            if said is not None:
                setattr(self, each.name, said if known is None else max(known, said))
        if other.lag is not None and other.lag_at is not None:
            if self.lag_at is None or (self.lag_at, self.lag or 0) < (other.lag_at, other.lag):
                self.lag, self.lag_at = other.lag, other.lag_at


def read_progress(facet: Any, at: datetime, checks: Checks) -> Progress | None:
    """The counts of a facet; notes every field that is wrong."""
    if facet is None:
        return None
    found = checks.object(facet, _PATH)
    told = Progress()
    for key, each in zip(_KEYS, fields(told), strict=False):
        value = found.get(key)
        if value is not None and not (type(value) is int and 0 <= value <= _MOST):
            checks.fail(f"{_PATH}.{key} must be a whole number from 0 to {_MOST}")
            value = None
        setattr(told, each.name, value)
    told.lag_at = at if told.lag is not None else None
    return told
