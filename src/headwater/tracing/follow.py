"""Checks the order of a growing topic: each output is checked when it arrives."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from headwater.errors import BrokerUnavailableError
from headwater.kafka import KafkaRuns, TopicFollower, end_offsets, partition_states, read_topic
from headwater.model import Address, AddressRange, Record
from headwater.model.header import Origin, origin_of
from headwater.model.topic_names import dead_letter_topic
from headwater.settings import Settings, load
from headwater.tracing.keys import RecordFinding, Violation
from headwater.tracing.node import bytes_as_json
from headwater.tracing.offsets import RangeSet
from headwater.tracing.order import NewestParents, SeenRecords
from headwater.tracing.scan import ends_if_exists
from headwater.tracing.source_window import OpenRecords, SourceWindow

_POLL_SECONDS = 0.05
_MAX_WAITING = 10_000
_REFRESH_PARTITIONS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class OrderViolation:
    """A violation of the order of a key.

    For a gap, `finding.record` is the record of the source and `finding.after` the output of a
    later one.
    """

    kind: Violation
    key: bytes | None
    finding: RecordFinding

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, **self.finding.as_json(), "key": bytes_as_json(self.key)}


@dataclass
class OrderReport:
    """Counts so far: outputs that were checked, violations, and outputs that were not checked.

    Outputs `without_key` have no order, nor have those `made_from_ranges`; those with
    `other_parents` were made from other topics only. `waiting` outputs wait until the source is
    read up to their parents. `open` records of the source wait for their outputs; `forgotten` ones
    exceeded the limit and are not tracked.
    """

    topic: str
    source: str
    judged: int = 0
    violations: Counter[Violation] = field(default_factory=Counter)
    without_lineage: int = 0
    unknown_parents: int = 0
    without_key: int = 0
    other_parents: int = 0
    made_from_ranges: int = 0
    waiting: int = 0
    open: int = 0
    forgotten: int = 0

    @property
    def passed(self) -> bool:
        """At least one output was checked, and all were in order."""
        wrong = self.violations.total() + self.without_lineage + self.unknown_parents
        return self.judged > 0 and not wrong

    def as_json(self) -> dict[str, Any]:
        counts = {kind.plural: self.violations[kind] for kind in Violation}
        rest = {name: value for name, value in vars(self).items() if name != "violations"}
        return {**rest, **counts, "passed": self.passed}


@dataclass(frozen=True, slots=True)
class _Output:
    record: Record
    origin: Origin
    # Its parents in the source, and the ranges of the source that contain some.
    parents: tuple[Address, ...]
    ranges: tuple[AddressRange, ...] = ()

    @property
    def newest(self) -> tuple[Address, ...]:
        """The parents, and the ends of the ranges."""
        ends = (Address(each.topic, each.partition, each.last) for each in self.ranges)
        return (*self.parents, *ends)


class OrderCheck:
    """Follows a topic and its source; each `step` returns the new violations.

    Args:
        settings: default: those of the environment and `headwater.toml`.
        settle_seconds: an overtaken record is a gap if it has neither an output nor a dead letter
            after this time. An output that arrives later is an inversion as well.
        gaps: whether to report gaps; a job that filters leaves records without outputs.
        clock: a monotonic clock, in seconds.

    Raises:
        TopicNotFoundError: there is no such topic.
        BrokerUnavailableError: Kafka did not respond at the start. Later failures are retried.
    """

    def __init__(
        self,
        topic: str,
        source: str,
        settings: Settings | None = None,
        *,
        settle_seconds: float = 10.0,
        gaps: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.report = OrderReport(topic, source)
        self._settings = settings = settings or load()
        self._settle_seconds = settle_seconds
        self._gaps = gaps
        self._clock = clock
        self._refreshed = clock()
        self._dead_letters_read: dict[int, int] = {}
        # Outputs that were read before the ends of the source were looked up.
        self._unchecked: list[_Output] = []
        self._waiting: deque[_Output] = deque()
        self._open = OpenRecords()
        self._runs = KafkaRuns(settings.kafka)
        self._within: dict[int, RangeSet] = defaultdict(RangeSet)
        self._newest = NewestParents()
        starts = {state.partition: state.first for state in partition_states(topic, settings.kafka)}
        self._source = SourceWindow(source, settings)
        self._seen = SeenRecords(source, self._source.firsts)
        self._outputs = TopicFollower(topic, starts, settings.kafka)

    def step(self) -> list[OrderViolation]:
        """Check the outputs that have arrived; waits only a moment if there are none."""
        violations: list[OrderViolation] = []
        try:
            self._read_outputs()
            for record in self._source.read(_POLL_SECONDS):
                if self._gaps:
                    self._open.add(record)
            while self._waiting and self._can_be_judged(self._waiting[0]):
                violations += self._judge(self._waiting.popleft())
            violations += self._gaps_before(self._clock() - self._settle_seconds)
        except BrokerUnavailableError:
            # Records that were read are kept; the next step retries.
            pass
        return self._counted(violations)

    def finish(self) -> list[OrderViolation]:
        """The remaining gaps: every record that is overtaken now."""
        return self._counted(self._gaps_before(float("inf")))

    def close(self) -> None:
        self._outputs.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _read_outputs(self) -> None:
        if len(self._waiting) + len(self._unchecked) < _MAX_WAITING:
            for record in self._outputs.poll(_POLL_SECONDS):
                origin = origin_of(record, self._runs)
                named = origin.lineage.parents if origin.lineage else ()
                ranges = origin.lineage.ranges if origin.lineage else ()
                own = tuple(parent for parent in named if parent.topic == self.report.source)
                within = tuple(each for each in ranges if each.topic == self.report.source)
                self._unchecked.append(_Output(record, origin, own, within))
        # Looked up after the outputs were read: a parent beyond these ends never existed.
        if self._clock() - self._refreshed > _REFRESH_PARTITIONS_SECONDS or not all(
            self._source.knows(output.newest) for output in self._unchecked
        ):
            self._refresh_partitions()
        for output in self._unchecked:
            if self._source.knows(output.newest):
                self._source.want(output.newest)
        self._waiting += self._unchecked
        self._unchecked = []

    def _refresh_partitions(self) -> None:
        self._source.refresh_ends()
        topic = self.report.topic
        for partition in (
            end_offsets(topic, self._settings.kafka).keys() - self._outputs.positions.keys()
        ):
            self._outputs.add(partition, 0)
        self._refreshed = self._clock()

    def _can_be_judged(self, output: _Output) -> bool:
        return not self._source.knows(output.newest) or self._source.has_read(output.newest)

    def _judge(self, output: _Output) -> Iterator[OrderViolation]:
        report, record, lineage = self.report, output.record, output.origin.lineage
        report.judged += 1
        if lineage is None:
            report.without_lineage += 1
        elif not self._source.knows(output.newest):
            report.unknown_parents += 1
        elif not output.newest:
            report.other_parents += 1
        else:
            report.made_from_ranges += bool(output.ranges)
            for each in output.ranges:
                self._within[each.partition].add(each.first, each.last)
            for parent in output.parents:
                self._open.close(parent, record.address, self._clock())
            if self._seen.add(record, lineage, output.origin.job_name or ""):
                finding = RecordFinding(record.address, output.parents[0])
                yield OrderViolation(Violation.DUPLICATE, record.key, finding)
            elif record.key is None:
                report.without_key += 1
            # Outputs with several parents have no defined order.
            elif lineage.exact and lineage.parent_count == 1:
                yield from self._inversion(record, output.parents[0])

    def _inversion(self, record: Record, parent: Address) -> Iterator[OrderViolation]:
        after = self._newest.add(record, parent)
        if after is not None:
            finding = RecordFinding(record.address, parent, after, record.key)
            yield OrderViolation(Violation.INVERSION, record.key, finding)

    def _gaps_before(self, seen: float) -> list[OrderViolation]:
        if not self._open.has_overtaken(seen):
            return []
        self._read_dead_letters()
        return [
            OrderViolation(
                Violation.GAP,
                each.key,
                RecordFinding(each.record, after=each.overtaken_by, key=each.key),
            )
            for each in self._open.take_overtaken(seen)
            # An output may be made from it.
            if each.record.offset not in self._within[each.record.partition]
        ]

    def _read_dead_letters(self) -> None:
        """Read before gaps are reported: a record with a dead letter is not a gap."""
        topic = dead_letter_topic(self.report.topic)
        ends = ends_if_exists(topic, self._settings)
        starts = {part: self._dead_letters_read.get(part, 0) for part in ends}
        if any(starts[part] < end for part, end in ends.items()):
            for letter in read_topic(topic, self._settings.kafka, start=starts, until=ends):
                lineage = origin_of(letter).lineage
                for parent in lineage.parents if lineage else ():
                    self._open.dead_letter(parent)
        self._dead_letters_read = ends

    def _counted(self, violations: list[OrderViolation]) -> list[OrderViolation]:
        report = self.report
        report.violations.update(each.kind for each in violations)
        report.waiting, report.open = len(self._waiting), len(self._open)
        report.forgotten = self._open.forgotten
        return violations
