"""What Spark tells of micro-batches, added up: which records were read and written, and how many.

Spark's progress event comes as JSON. Kafka sources tell offsets; Headwater's sink tells, as its
metrics, which offsets it wrote (`{"visits/0": "17,19,3"}`: first, last and count).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Of a topic's partition: the first and the last offset, both included.
Ranges = dict[tuple[str, int], tuple[int, int]]

# Where a query began to read: by topic and partition, the first offset.
Started = Callable[[], Mapping[str, Mapping[int, int]]]

# Rows of a streaming query are counted under this name, where its sink does not count them: as
# `rows`, and what was set aside as `dead_letter`.
OBSERVED = "headwater_rows"
# Of the sink's metrics: rows that came without parents.
WITHOUT_PARENTS = "without-parents"


@dataclass(frozen=True)
class Roles:
    """What the topics of a query are; a topic that is in none of these is an output like any."""

    # Not told of: a query's own heartbeats.
    hidden: frozenset[str] = frozenset()
    dead_letter: str | None = None
    late: str | None = None
    # Records that list further parents.
    parents: str | None = None
    # Whether all rows carry lineage, unless the sink says otherwise.
    with_lineage: bool = False


@dataclass
class StreamProgress:
    """Of one run. Counts are since its begin; ranges since they were taken last."""

    roles: Roles = field(default_factory=Roles)
    # Of a query's first batch Spark tells only the end.
    started: Started = dict
    batch: int = 0
    batches: int = 0
    rows_in: Counter[str] = field(default_factory=Counter)
    rows_out: Counter[str] = field(default_factory=Counter)
    rows_without_parents: int = 0
    dropped_late: int = 0
    lag: int | None = None
    _rows_read: int = 0
    _rows_written: int | None = None
    _rows_observed: int | None = None
    _read: Ranges = field(default_factory=dict)
    _written: Ranges = field(default_factory=dict)

    def add(self, progress: Mapping[str, Any]) -> None:
        """A micro-batch that is done."""
        self.batch = progress["batchId"]
        self.batches += 1
        lags = [self._add_source(source) for source in progress.get("sources", ())]
        known = [lag for lag in lags if lag is not None]
        self.lag = sum(known) if known else self.lag
        self._add_sink(progress)
        for operator in progress.get("stateOperators", ()):
            self.dropped_late += operator.get("numRowsDroppedByWatermark") or 0

    @property
    def topics_read(self) -> set[str]:
        return set(self.rows_in)

    @property
    def topics_written(self) -> set[str]:
        return set(self.rows_out)

    def take_ranges(self) -> tuple[Ranges, Ranges]:
        """What was read and written since the last time."""
        read, written = self._read, self._written
        self._read, self._written = {}, {}
        return read, written

    def counts(self) -> dict[str, int]:
        """As the facet `headwater_progress` has them; what is not known is left out."""
        roles, out = self.roles, self.rows_out
        aside = {roles.dead_letter, roles.late, roles.parents}
        found = {"rowsIn": self._rows_read}
        written = self._rows_written
        if self._rows_observed is not None:
            written = self._rows_observed
        elif out:
            written = sum(count for topic, count in out.items() if topic not in aside)
        if written is not None:
            found["rowsOut"] = written
            if roles.with_lineage:
                found["rowsWithLineage"] = max(0, written - self.rows_without_parents)
        if roles.dead_letter is not None:
            found["deadLettered"] = out[roles.dead_letter]
        found["lateRows"] = self.dropped_late + (out[roles.late] if roles.late else 0)
        if self.lag is not None:
            found["lag"] = self.lag
        return found

    def _add_source(self, source: Mapping[str, Any]) -> int | None:
        """Adds what a source has read; returns how far it is behind, if it tells that."""
        end = _offsets(source.get("endOffset"))
        begin = _offsets(source.get("startOffset") or (self.started() if end else None))
        rows = source.get("numInputRows") or 0
        shown = {place: at for place, at in end.items() if place[0] not in self.roles.hidden}
        ranges: Ranges = {}
        # Where nobody knows the begin, no range is told rather than one that is too long.
        for place, after in shown.items() if begin else ():
            # A partition that was added is read from its first record.
            first = begin.get(place, 0)
            if first < after:
                ranges[place] = first, after - 1
                self.rows_in[place[0]] += after - first
        # Marks of transactions take offsets; a batch that is looked at twice counts its rows twice.
        spanned = sum(last - first + 1 for first, last in ranges.values())
        self._rows_read += min(rows, spanned) if begin else rows
        _merge(self._read, ranges)
        latest = _offsets(source.get("latestOffset"))
        if not shown or not latest:
            return None
        return sum(max(0, latest.get(place, at) - at) for place, at in shown.items())

    def _add_sink(self, progress: Mapping[str, Any]) -> None:
        sink = progress.get("sink") or {}
        metrics = sink.get("metrics") or {}
        self.rows_without_parents += int(metrics.get(WITHOUT_PARENTS, 0))
        for topic, partition, first, last, count in _written(metrics):
            self.rows_out[topic] += count
            if topic not in self.roles.hidden:
                _merge(self._written, {(topic, partition): (first, last)})
        rows = sink.get("numOutputRows")
        if isinstance(rows, int) and rows >= 0:
            self._rows_written = (self._rows_written or 0) + rows
        observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
        if isinstance(observed, Mapping):
            self._rows_observed = (self._rows_observed or 0) + int(observed.get("rows") or 0)
            if self.roles.dead_letter is not None:
                self.rows_out[self.roles.dead_letter] += int(observed.get("dead_letter") or 0)


def _offsets(told: Any) -> dict[tuple[str, int], int]:
    """Of a Kafka source; others tell theirs in other forms."""
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in told.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def _written(metrics: Mapping[str, str]) -> Iterator[tuple[str, int, int, int, int]]:
    for place, text in metrics.items():
        topic, slash, partition = place.rpartition("/")
        parts = text.split(",")
        if slash and len(parts) == 3:
            first, last, count = map(int, parts)
            yield topic, int(partition), first, last, count


def _merge(known: Ranges, found: Ranges) -> None:
    """One range for each partition: batches follow upon each other."""
    for place, (first, last) in found.items():
        before = known.get(place, (first, last))
        known[place] = min(first, before[0]), max(last, before[1])
