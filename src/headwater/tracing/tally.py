"""Counting while the records of a topic come by, in a few bytes for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.model import Address, Lineage, Record
from headwater.model.headers import origin_of
from headwater.tracing.keys import Finding, Violation
from headwater.tracing.offsets import OffsetSet
from headwater.tracing.order import Copies, NewestParents
from headwater.tracing.report import VerifyReport

EXAMPLES_KEPT = 10
_TOPICS_KEPT = 20


@dataclass(frozen=True, slots=True)
class Window:
    """What of a source's partition is judged: offsets from `first` up to, not with, `end`.

    `newest_end` is where it ended after the topic's own end was looked up: no honest record of
    the topic has a parent beyond.
    """

    first: int
    end: int
    newest_end: int


class NamedParents:
    """Which records of the source are named as parents, by partition."""

    def __init__(self, source: str, windows: Mapping[int, Window]) -> None:
        self._source = source
        self._windows = windows
        self.offsets: dict[int, OffsetSet] = {p: OffsetSet() for p in windows}
        self.expired = 0
        # Whether any record names any parent in the source.
        self.any = False
        self.other_topics: dict[str, None] = {}

    def take(self, lineage: Lineage) -> bool:
        """Note all parents; False if one of them was never in the source."""
        known = True
        for parent in lineage.parents:
            if parent.topic != self._source:
                if len(self.other_topics) < _TOPICS_KEPT:
                    self.other_topics[parent.topic] = None
                continue
            self.any = True
            known = self._take_own(parent) and known
        return known

    def _take_own(self, parent: Address) -> bool:
        window = self._windows.get(parent.partition)
        if window is None or parent.offset >= window.newest_end:
            return False
        if parent.offset < window.first:
            self.expired += 1
        elif parent.offset < window.end:
            self.offsets[parent.partition].add(parent.offset)
        return True


class TopicTally:
    """Judges the records of a topic, one after the other, each partition in order."""

    def __init__(self, source: str, windows: Mapping[int, Window], report: VerifyReport) -> None:
        self.parents = NamedParents(source, windows)
        self._source = source
        self._report = report
        self._copies = Copies(source, {p: window.first for p, window in windows.items()})
        self._newest = NewestParents()
        # Records that list further parents of those that came by.
        self.rest: set[Address] = set()

    def take(self, record: Record) -> None:
        report = self._report
        report.scanned += 1
        origin = origin_of(record)
        lineage = origin.lineage
        if lineage is None:
            report.without_lineage += 1
            self._note("without_lineage", Finding(record.address))
            report.unreadable += origin.unreadable is not None
            return
        report.unlisted_parents += lineage.unlisted
        self.rest.update(lineage.rest)
        first = lineage.parents[0] if lineage.parents else None
        if not self.parents.take(lineage):
            report.unknown_parents += 1
            self._note("unknown_parents", Finding(record.address, first))
        elif self._copies.take(lineage, origin.job_name or ""):
            report.duplicates += 1
            self._note("duplicates", Finding(record.address, first))
            report.keys.take(Violation.DUPLICATE, record.key, Finding(record.address, first))
        elif first is not None and first.topic == self._source:
            # With several parents there is no one order that the outputs have to keep.
            if lineage.parent_count == 1:
                self._take_order(record, first)

    def take_rest(self, record: Record) -> None:
        """A record of the topic for further parents; one that nobody names counts for nothing."""
        lineage = origin_of(record).lineage if record.address in self.rest else None
        if lineage is not None:
            self.parents.take(lineage)
            unlisted = self._report.unlisted_parents - len(lineage.parents)
            self._report.unlisted_parents = max(unlisted, 0)

    def _take_order(self, record: Record, parent: Address) -> None:
        if record.key is None:
            self._report.without_key += 1
            return
        after = self._newest.take(record, parent)
        if after is not None:
            self._report.out_of_order += 1
            finding = Finding(record.address, parent, after, record.key)
            self._note("out_of_order", finding)
            self._report.keys.take(Violation.INVERSION, record.key, finding)

    def _note(self, kind: str, finding: Finding) -> None:
        examples = self._report.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_KEPT:
            examples.append(finding)
