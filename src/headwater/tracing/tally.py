"""Counts over the records of a topic, in a few bytes per record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.model import Address, AddressRange, Lineage, Record
from headwater.model.header import origin_of
from headwater.model.run_record import RunLookup
from headwater.tracing.keys import RecordFinding, Violation
from headwater.tracing.offsets import OffsetSet, RangeSet
from headwater.tracing.order import NewestParents, SeenRecords
from headwater.tracing.report import VerifyReport

MAX_EXAMPLES = 10
_MAX_TOPICS = 20


@dataclass(frozen=True, slots=True)
class Window:
    """The checked offsets of a source partition: from `first` to `end`, `end` excluded.

    `newest_end` is the end of the partition after the end of the topic was looked up: no genuine
    record of the topic has a parent beyond it.
    """

    first: int
    end: int
    newest_end: int


class NamedParents:
    """Offsets of the source that are named as parents, or that lie within ranges, by partition."""

    def __init__(self, source: str, windows: Mapping[int, Window]) -> None:
        self._source = source
        self._windows = windows
        self.offsets: dict[int, OffsetSet] = {p: OffsetSet() for p in windows}
        self.within: dict[int, RangeSet] = {p: RangeSet() for p in windows}
        self.expired = 0
        # Whether any record names any parent in the source.
        self.any = False
        self.other_topics: dict[str, None] = {}

    def add(self, lineage: Lineage) -> bool:
        """Add all parents; False if one of them was never in the source."""
        known = True
        for parent in lineage.parents:
            if self._is_own(parent.topic):
                known = self._add_own(parent) and known
        for within in lineage.ranges:
            if self._is_own(within.topic):
                known = self._add_range(within) and known
        return known

    def _is_own(self, topic: str) -> bool:
        if topic == self._source:
            self.any = True
            return True
        if len(self.other_topics) < _MAX_TOPICS:
            self.other_topics[topic] = None
        return False

    def _add_range(self, within: AddressRange) -> bool:
        window = self._windows.get(within.partition)
        if window is None or within.last >= window.newest_end:
            return False
        self.within[within.partition].add(within.first, within.last)
        return True

    def _add_own(self, parent: Address) -> bool:
        window = self._windows.get(parent.partition)
        if window is None or parent.offset >= window.newest_end:
            return False
        if parent.offset < window.first:
            self.expired += 1
        elif parent.offset < window.end:
            self.offsets[parent.partition].add(parent.offset)
        return True


class TopicTally:
    """Checks the records of a topic one by one, each partition in order."""

    def __init__(
        self,
        source: str,
        windows: Mapping[int, Window],
        report: VerifyReport,
        runs: RunLookup | None = None,
    ) -> None:
        self._runs = runs
        self.parents = NamedParents(source, windows)
        self._source = source
        self._report = report
        self._seen = SeenRecords(source, {p: window.first for p, window in windows.items()})
        self._newest = NewestParents()
        # Addresses of records that list further parents.
        self.rest: set[Address] = set()

    def add(self, record: Record) -> None:
        report = self._report
        report.scanned += 1
        origin = origin_of(record, self._runs)
        lineage = origin.lineage
        if lineage is None:
            report.without_lineage += 1
            self._add_example("without_lineage", RecordFinding(record.address))
            report.unreadable += origin.unreadable is not None
            return
        report.unlisted_parents += lineage.unlisted
        report.made_from_ranges += bool(lineage.ranges)
        report.more_parents += lineage.more_parents
        self.rest.update(lineage.rest)
        first = lineage.parents[0] if lineage.parents else None
        if not self.parents.add(lineage):
            report.unknown_parents += 1
            self._add_example("unknown_parents", RecordFinding(record.address, first))
        elif self._seen.add(record, lineage, origin.job_name or ""):
            report.duplicates += 1
            self._add_example("duplicates", RecordFinding(record.address, first))
            report.keys.add(Violation.DUPLICATE, record.key, RecordFinding(record.address, first))
        elif first is not None and first.topic == self._source:
            # Outputs with several parents have no defined order.
            if lineage.exact and lineage.parent_count == 1:
                self._add_order(record, first)

    def add_rest(self, record: Record) -> None:
        """Add a record of the topic `…-parents`; ignored unless a record of the topic names it."""
        lineage = origin_of(record).lineage if record.address in self.rest else None
        if lineage is not None:
            self.parents.add(lineage)
            items = len(lineage.parents) + len(lineage.ranges)
            unlisted = self._report.unlisted_parents - items
            self._report.unlisted_parents = max(unlisted, 0)

    def _add_order(self, record: Record, parent: Address) -> None:
        if record.key is None:
            self._report.without_key += 1
            return
        after = self._newest.add(record, parent)
        if after is not None:
            self._report.out_of_order += 1
            finding = RecordFinding(record.address, parent, after, record.key)
            self._add_example("out_of_order", finding)
            self._report.keys.add(Violation.INVERSION, record.key, finding)

    def _add_example(self, kind: str, finding: RecordFinding) -> None:
        examples = self._report.examples.setdefault(kind, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(finding)
