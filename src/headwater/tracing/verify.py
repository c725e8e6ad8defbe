"""`verify`: hold a topic against the source it was made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from headwater.errors import InputError
from headwater.kafka import end_offsets, partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.headers import origin_of
from headwater.model.topic_names import dead_letter_topic, late_topic, parents_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState
from headwater.tracing.fate import Explainer, Fate, Judge
from headwater.tracing.keys import Finding, Violation
from headwater.tracing.offsets import OffsetSet
from headwater.tracing.report import Gap, VerifyReport
from headwater.tracing.route import Readings
from headwater.tracing.tally import EXAMPLES_KEPT, NamedParents, TopicTally, Window
from headwater.tracing.topics import ends_if_there


def verify(
    topic: str,
    source: str,
    settings: Settings,
    *,
    allow_filtered: bool = False,
    checkpoint: Path | None = None,
    explainers: Sequence[Explainer] = (),
) -> VerifyReport:
    """Tell which records of `source` have no output in `topic`, and what is wrong with those.

    Reads both topics once, as they were when the call began, and what was set aside in
    `<topic>-dead-letter` and `<topic>-late`. One hop: the records of `topic` must name records of
    `source` as their parents.

    Args:
        allow_filtered: the job drops records on purpose: those that its checkpoint says were
            read, with neither output nor dead letter, count as filtered. Nothing in Kafka tells
            them from lost ones; so this has to be said.
        checkpoint: the job's, if it does not lie in the home.
        explainers: know which records a job with state still holds.

    Raises:
        TopicNotFoundError: there is no such topic.
        InputError: the records of `topic` were made from other topics; or `allow_filtered`
            without a checkpoint.
        CheckpointError: `checkpoint` is damaged, or nothing was begun with it.
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    report = VerifyReport(topic, source)
    # Before any topic: what is committed later must not count as read and filtered.
    readings = Readings(settings, checkpoint) if allow_filtered or explainers else None
    reading = readings.of(source, topic) if readings else None
    if allow_filtered and reading is None:
        raise _no_checkpoint(topic, source)
    judge = _judge(source, reading, explainers)
    # The order of these questions matters to a topic that grows: each end is looked up before
    # the one that bounds it, so that what is on its way is not taken for forged.
    states = partition_states(source, settings.kafka)
    topic_ends = end_offsets(topic, settings.kafka)
    set_aside = {
        name: ends_if_there(name, settings)
        for name in (dead_letter_topic(topic), late_topic(topic))
    }
    source_ends = end_offsets(source, settings.kafka)
    bounds = {state.partition: (state.first, state.end) for state in states}
    windows = {p: Window(*bounds.get(p, (end, end)), end) for p, end in source_ends.items()}

    tally = TopicTally(source, windows, report)
    for record in _read(topic, topic_ends, settings):
        tally.take(record)
    if tally.rest:
        rest = parents_topic(topic)
        for record in _read(rest, ends_if_there(rest, settings), settings):
            tally.take_rest(record)
    dead = NamedParents(source, windows)
    for name, ends in set_aside.items():
        for record in _read(name, ends, settings):
            lineage = origin_of(record).lineage
            if lineage is not None:
                dead.take(lineage)
                report.unlisted_parents += lineage.unlisted
    _refuse_other_sources(report, tally.parents, dead)
    unaccounted = _Unaccounted(report, tally.parents, dead, reading, judge, allow_filtered)
    expected = _offsets_of(source, windows, settings, unaccounted)
    _compare(report, expected, tally.parents, dead, unaccounted)
    return report


def _no_checkpoint(topic: str, source: str) -> InputError:
    return InputError(
        f"no checkpoint of a job from {source!r} into {topic!r} was found: what the job has "
        "not read yet can't be told from what it filtered",
        hint="name the job's folder with --checkpoint",
        topic=topic,
        source=source,
    )


def _judge(
    source: str, reading: CheckpointState | None, explainers: Sequence[Explainer]
) -> Judge | None:
    if reading is None:
        return None
    found = (each.judge(source, reading) for each in explainers)
    return next((judge for judge in found if judge is not None), None)


def _read(topic: str, ends: Mapping[int, int], settings: Settings) -> Iterator[Record]:
    return read_topic(topic, settings.kafka, until=ends) if ends else iter(())


def _offsets_of(
    topic: str, windows: Mapping[int, Window], settings: Settings, unaccounted: _Unaccounted
) -> dict[int, OffsetSet]:
    """Which offsets hold a record: compaction and transactions leave holes."""
    offsets = {partition: OffsetSet() for partition in windows}
    ends = {partition: window.end for partition, window in windows.items()}
    for record in read_topic(topic, settings.kafka, until=ends):
        offsets[record.address.partition].add(record.address.offset)
        unaccounted.take(record)
    return offsets


class _Unaccounted:
    """Records of the source that have no output, while they come by: which of them are filtered
    or wait, and the keys of the others."""

    def __init__(
        self,
        report: VerifyReport,
        parents: NamedParents,
        dead: NamedParents,
        reading: CheckpointState | None,
        judge: Judge | None,
        allow_filtered: bool,
    ) -> None:
        self._keys = report.keys
        self._named = (parents.offsets, dead.offsets)
        self._began = reading.started.get(report.source, {}) if reading else {}
        self._read = reading.committed.get(report.source, {}) if reading else {}
        self._judge = judge
        self._otherwise = Fate.FILTERED if allow_filtered else None
        self.filtered: dict[int, OffsetSet] = defaultdict(OffsetSet)
        self.waiting: dict[int, OffsetSet] = defaultdict(OffsetSet)

    def take(self, record: Record) -> None:
        partition, offset = record.address.partition, record.address.offset
        if any(offset in offsets[partition] for offsets in self._named):
            return
        fate = None
        if self._began.get(partition, 0) <= offset < self._read.get(partition, 0):
            fate = (self._judge(record) if self._judge else None) or self._otherwise
        if fate is Fate.WAITING:
            self.waiting[partition].add(offset)
        elif fate is not None:
            self.filtered[partition].add(offset)
        else:
            self._keys.take(Violation.GAP, record.key, Finding(record.address))


def _compare(
    report: VerifyReport,
    expected: Mapping[int, OffsetSet],
    parents: NamedParents,
    dead: NamedParents,
    unaccounted: _Unaccounted,
) -> None:
    report.other_sources = list(parents.other_topics)
    report.gone_parents = parents.expired
    for partition, offsets in expected.items():
        named = parents.offsets[partition]
        found = offsets & named
        dead_lettered = (offsets & dead.offsets[partition]) - found
        filtered, waiting = unaccounted.filtered[partition], unaccounted.waiting[partition]
        missing = offsets - found - dead_lettered - filtered - waiting
        report.filtered += len(filtered)
        report.waiting += len(waiting)
        report.expected += len(offsets)
        report.found += len(found)
        report.dead_lettered += len(dead_lettered)
        report.missing += len(missing)
        report.gone_parents += len(named - offsets)
        _note_gaps(report, partition, missing)


def _note_gaps(report: VerifyReport, partition: int, missing: OffsetSet) -> None:
    report.gaps += missing.range_count()
    for ends in islice(missing.ranges(), EXAMPLES_KEPT - len(report.gap_examples)):
        first, last = (Address(report.source, partition, offset) for offset in ends)
        report.gap_examples.append(Gap(first, last))


def _refuse_other_sources(report: VerifyReport, parents: NamedParents, dead: NamedParents) -> None:
    if parents.any or dead.any or not parents.other_topics:
        return
    others = sorted(parents.other_topics)
    raise InputError(
        f"no record of {report.topic!r} was made from {report.source!r}: "
        f"their parents lie in {', '.join(others)}",
        hint=f"verify hop by hop, such as `headwater verify {report.topic} --source {others[0]}`",
        topic=report.topic,
        source=report.source,
        parents_in=others,
    )
