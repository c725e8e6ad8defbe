"""The order proof on a topic that grows: each output is judged when it arrives."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from headwater.errors import BrokerUnavailableError
from headwater.kafka import TopicFollower, end_offsets, partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.headers import Origin, origin_of
from headwater.model.topic_names import dead_letter_topic
from headwater.settings import Settings
from headwater.tracing.jsonable import bytes_as_json
from headwater.tracing.keys import Finding, Violation
from headwater.tracing.open_records import OpenRecords
from headwater.tracing.order import Copies, NewestParents
from headwater.tracing.source_window import SourceBeside
from headwater.tracing.topics import ends_if_there

_POLL_SECONDS = 0.05
_MAX_WAITING = 10_000
_LOOK_FOR_PARTITIONS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """Something that is wrong with the order of a key.

    Of a gap `finding.record` is the record of the source, `finding.after` an output of a later one.
    """

    kind: Violation
    key: bytes | None
    finding: Finding

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, **self.finding.as_json(), "key": bytes_as_json(self.key)}


@dataclass
class OrderReport:
    """How it stands: what was judged, what was found, and what could not be judged.

    `without_key` have no order to keep; `other_parents` were made from other topics alone.
    `waiting` outputs wait for the source to be read up to their parents; `open` records of the
    source are held until their outputs come, `forgotten` ones are so many that they are not.
    """

    topic: str
    source: str
    judged: int = 0
    found: Counter[Violation] = field(default_factory=Counter)
    without_lineage: int = 0
    unknown_parents: int = 0
    without_key: int = 0
    other_parents: int = 0
    waiting: int = 0
    open: int = 0
    forgotten: int = 0

    @property
    def passed(self) -> bool:
        """Something was judged, and nothing was wrong with it."""
        wrong = self.found.total() + self.without_lineage + self.unknown_parents
        return self.judged > 0 and not wrong

    def as_json(self) -> dict[str, Any]:
        counts = {kind.plural: self.found[kind] for kind in Violation}
        rest = {name: value for name, value in vars(self).items() if name != "found"}
        return {**rest, **counts, "passed": self.passed}


@dataclass(frozen=True, slots=True)
class _Output:
    record: Record
    origin: Origin
    # Its parents in the source.
    parents: tuple[Address, ...]


class OrderProof:
    """Follows a topic and its source; `step` gives what was found since the last one.

    Args:
        settle_seconds: a record that was overtaken is a gap if it has neither output nor dead
            letter so long after. One that comes still later is an inversion as well.
        gaps: whether to judge them; a job that filters leaves records without outputs.
        clock: seconds, from any beginning.

    Raises:
        TopicNotFoundError: there is no such topic.
        BrokerUnavailableError: Kafka did not answer at the start. Later it is waited for.
    """

    def __init__(
        self,
        topic: str,
        source: str,
        settings: Settings,
        *,
        settle_seconds: float = 10.0,
        gaps: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.report = OrderReport(topic, source)
        self._settings = settings
        self._settle_seconds = settle_seconds
        self._gaps = gaps
        self._clock = clock
        self._looked = clock()
        self._dead_read: dict[int, int] = {}
        # Read, and not yet known whether the source goes as far as their parents.
        self._fresh: list[_Output] = []
        self._waiting: deque[_Output] = deque()
        self._open = OpenRecords()
        self._newest = NewestParents()
        begins = {state.partition: state.first for state in partition_states(topic, settings.kafka)}
        self._source = SourceBeside(source, settings)
        self._copies = Copies(source, self._source.firsts)
        self._outputs = TopicFollower(topic, begins, settings.kafka)

    def step(self) -> list[Found]:
        """Take what has arrived; returns after a moment if there is nothing."""
        found: list[Found] = []
        try:
            self._take_outputs()
            for record in self._source.read(_POLL_SECONDS):
                if self._gaps:
                    self._open.add(record)
            while self._waiting and self._can_be_judged(self._waiting[0]):
                found += self._judge(self._waiting.popleft())
            found += self._gaps_before(self._clock() - self._settle_seconds)
        except BrokerUnavailableError:
            # Nothing that was read is lost: the next step asks again.
            pass
        return self._counted(found)

    def finish(self) -> list[Found]:
        """The last of it: whatever is overtaken now is a gap."""
        return self._counted(self._gaps_before(float("inf")))

    def close(self) -> None:
        self._outputs.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _take_outputs(self) -> None:
        if len(self._waiting) + len(self._fresh) < _MAX_WAITING:
            for record in self._outputs.poll(_POLL_SECONDS):
                origin = origin_of(record)
                named = origin.lineage.parents if origin.lineage else ()
                own = tuple(parent for parent in named if parent.topic == self.report.source)
                self._fresh.append(_Output(record, origin, own))
        # Looked up behind the outputs: a parent beyond these ends was never there.
        if self._clock() - self._looked > _LOOK_FOR_PARTITIONS_SECONDS or not all(
            self._source.knows(output.parents) for output in self._fresh
        ):
            self._look_around()
        for output in self._fresh:
            if self._source.knows(output.parents):
                self._source.want(output.parents)
        self._waiting += self._fresh
        self._fresh = []

    def _look_around(self) -> None:
        self._source.look_at_ends()
        topic = self.report.topic
        for partition in (
            end_offsets(topic, self._settings.kafka).keys() - self._outputs.positions.keys()
        ):
            self._outputs.add(partition, 0)
        self._looked = self._clock()

    def _can_be_judged(self, output: _Output) -> bool:
        return not self._source.knows(output.parents) or self._source.has_read(output.parents)

    def _judge(self, output: _Output) -> Iterator[Found]:
        report, record, lineage = self.report, output.record, output.origin.lineage
        report.judged += 1
        if lineage is None:
            report.without_lineage += 1
        elif not self._source.knows(output.parents):
            report.unknown_parents += 1
        elif not output.parents:
            report.other_parents += 1
        else:
            for parent in output.parents:
                self._open.close(parent, record.address, self._clock())
            if self._copies.take(lineage, output.origin.job_name or ""):
                finding = Finding(record.address, output.parents[0])
                yield Found(Violation.DUPLICATE, record.key, finding)
            elif record.key is None:
                report.without_key += 1
            # With several parents there is no one order that the outputs have to keep.
            elif lineage.parent_count == 1:
                yield from self._disorder(record, output.parents[0])

    def _disorder(self, record: Record, parent: Address) -> Iterator[Found]:
        after = self._newest.take(record, parent)
        if after is not None:
            finding = Finding(record.address, parent, after, record.key)
            yield Found(Violation.INVERSION, record.key, finding)

    def _gaps_before(self, seen: float) -> list[Found]:
        if not self._open.has_holes(seen):
            return []
        self._look_at_dead_letters()
        return [
            Found(Violation.GAP, hole.key, Finding(hole.record, after=hole.shown_by, key=hole.key))
            for hole in self._open.take_holes(seen)
        ]

    def _look_at_dead_letters(self) -> None:
        """Before a gap is told: a record that was set aside since the last look is none."""
        topic = dead_letter_topic(self.report.topic)
        ends = ends_if_there(topic, self._settings)
        begins = {part: self._dead_read.get(part, 0) for part in ends}
        if any(begins[part] < end for part, end in ends.items()):
            for letter in read_topic(topic, self._settings.kafka, start=begins, until=ends):
                lineage = origin_of(letter).lineage
                for parent in lineage.parents if lineage else ():
                    self._open.set_aside(parent)
        self._dead_read = ends

    def _counted(self, found: list[Found]) -> list[Found]:
        report = self.report
        report.found.update(each.kind for each in found)
        report.waiting, report.open = len(self._waiting), len(self._open)
        report.forgotten = self._open.forgotten
        return found
