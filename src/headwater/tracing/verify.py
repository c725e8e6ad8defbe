"""`verify`: compare a topic with the source it was made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from headwater.errors import InputError
from headwater.kafka import KafkaRuns, end_offsets, partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.header import origin_of
from headwater.model.topic_names import dead_letter_topic, late_topic, parents_topic
from headwater.settings import Settings, load
from headwater.storage.checkpoint import CheckpointState
from headwater.tracing.fate import Explainer, Fate, Judge
from headwater.tracing.keys import RecordFinding, Violation
from headwater.tracing.offsets import OffsetSet
from headwater.tracing.report import MissingRange, VerifyReport
from headwater.tracing.route import Checkpoints
from headwater.tracing.scan import ends_if_exists
from headwater.tracing.tally import MAX_EXAMPLES, NamedParents, TopicTally, Window


def verify(
    topic: str,
    source: str,
    settings: Settings | None = None,
    *,
    allow_filtered: bool = False,
    allow_ranges: bool = False,
    checkpoint: Path | None = None,
    explainers: Sequence[Explainer] = (),
) -> VerifyReport:
    """Find records of `source` without an output in `topic`, and duplicate or out-of-order outputs.

    Reads both topics once, up to their ends when the call began, and the topics
    `<topic>-dead-letter` and `<topic>-late`. Covers one hop: the records of `topic` must name
    records of `source` as their parents.

    Args:
        settings: default: those of the environment and `headwater.toml`.
        allow_filtered: the job drops records on purpose: records that its checkpoint has read, with
            neither output nor dead letter, count as filtered. Kafka alone can't distinguish them
            from lost ones, so the caller has to state it.
        allow_ranges: records that are only known to lie within the ranges of outputs pass: the job
            has a step that can't be followed row by row. Which of them were lost is not visible.
        checkpoint: the job's, if it is not in the home.
        explainers: find the records that a job with state still holds.

    Raises:
        TopicNotFoundError: there is no such topic.
        InputError: the records of `topic` were made from other topics; or `allow_filtered`
            without a checkpoint.
        CheckpointError: `checkpoint` is damaged, or no batch was started with it.
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    settings = settings or load()
    report = VerifyReport(topic, source, allow_ranges=allow_ranges)
    # Read before the topics: records that are committed later must not count as filtered.
    checkpoints = Checkpoints(settings, checkpoint) if allow_filtered or explainers else None
    state = checkpoints.of(source, topic) if checkpoints else None
    if allow_filtered and state is None:
        raise _no_checkpoint(topic, source)
    judge = _judge(source, state, explainers)
    # The order matters for a growing topic: the end of the source is looked up after the ends of
    # the topics made from it, so that new parents are not taken for forged ones.
    states = partition_states(source, settings.kafka)
    topic_ends = end_offsets(topic, settings.kafka)
    dead_ends = {
        name: ends_if_exists(name, settings)
        for name in (dead_letter_topic(topic), late_topic(topic))
    }
    source_ends = end_offsets(source, settings.kafka)
    bounds = {state.partition: (state.first, state.end) for state in states}
    windows = {p: Window(*bounds.get(p, (end, end)), end) for p, end in source_ends.items()}

    tally = TopicTally(source, windows, report, KafkaRuns(settings.kafka))
    for record in _read(topic, topic_ends, settings):
        tally.add(record)
    if tally.rest:
        rest = parents_topic(topic)
        for record in _read(rest, ends_if_exists(rest, settings), settings):
            tally.add_rest(record)
    dead = NamedParents(source, windows)
    for name, ends in dead_ends.items():
        for record in _read(name, ends, settings):
            lineage = origin_of(record).lineage
            if lineage is not None:
                dead.add(lineage)
                report.unlisted_parents += lineage.unlisted
                report.more_parents += lineage.more_parents
    _refuse_other_sources(report, tally.parents, dead)
    unaccounted = _Unaccounted(report, tally.parents, dead, state, judge, allow_filtered)
    expected = _source_offsets(source, windows, settings, unaccounted)
    _compare(report, expected, tally.parents, dead, unaccounted)
    return report


def _no_checkpoint(topic: str, source: str) -> InputError:
    return InputError(
        f"no checkpoint of a job that reads {source!r} and writes {topic!r} found: records that "
        "are not read yet can't be distinguished from filtered ones",
        hint="set --checkpoint to the job's checkpoint",
        topic=topic,
        source=source,
    )


def _judge(
    source: str, state: CheckpointState | None, explainers: Sequence[Explainer]
) -> Judge | None:
    if state is None:
        return None
    judges = (each.judge(source, state) for each in explainers)
    return next((judge for judge in judges if judge is not None), None)


def _read(topic: str, ends: Mapping[int, int], settings: Settings) -> Iterator[Record]:
    return read_topic(topic, settings.kafka, until=ends) if ends else iter(())


def _source_offsets(
    topic: str, windows: Mapping[int, Window], settings: Settings, unaccounted: _Unaccounted
) -> dict[int, OffsetSet]:
    """The offsets that hold a record: compaction and transactions leave holes."""
    offsets = {partition: OffsetSet() for partition in windows}
    ends = {partition: window.end for partition, window in windows.items()}
    for record in read_topic(topic, settings.kafka, until=ends):
        offsets[record.address.partition].add(record.address.offset)
        unaccounted.add(record)
    return offsets


class _Unaccounted:
    """Records of the source without an output that names them: those within ranges, filtered and
    waiting ones, and the keys of the others."""

    def __init__(
        self,
        report: VerifyReport,
        parents: NamedParents,
        dead: NamedParents,
        state: CheckpointState | None,
        judge: Judge | None,
        allow_filtered: bool,
    ) -> None:
        self._keys = report.keys
        self._named = (parents.offsets, dead.offsets)
        self._ranges = (parents.within, dead.within)
        self._started = state.started.get(report.source, {}) if state else {}
        self._committed = state.committed.get(report.source, {}) if state else {}
        self._judge = judge
        self._default_fate = Fate.FILTERED if allow_filtered else None
        self.within: dict[int, OffsetSet] = defaultdict(OffsetSet)
        self.filtered: dict[int, OffsetSet] = defaultdict(OffsetSet)
        self.waiting: dict[int, OffsetSet] = defaultdict(OffsetSet)

    def add(self, record: Record) -> None:
        partition, offset = record.address.partition, record.address.offset
        if any(offset in offsets[partition] for offsets in self._named):
            return
        if any(offset in ranges[partition] for ranges in self._ranges):
            self.within[partition].add(offset)
            return
        fate = None
        if self._started.get(partition, 0) <= offset < self._committed.get(partition, 0):
            fate = (self._judge(record) if self._judge else None) or self._default_fate
        if fate is Fate.WAITING:
            self.waiting[partition].add(offset)
        elif fate is not None:
            self.filtered[partition].add(offset)
        else:
            self._keys.add(Violation.GAP, record.key, RecordFinding(record.address))


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
        within = unaccounted.within[partition]
        missing = offsets - found - dead_lettered - within - filtered - waiting
        report.within += len(within)
        report.filtered += len(filtered)
        report.waiting += len(waiting)
        report.expected += len(offsets)
        report.found += len(found)
        report.dead_lettered += len(dead_lettered)
        report.missing += len(missing)
        report.gone_parents += len(named - offsets)
        _add_gaps(report, partition, missing)


def _add_gaps(report: VerifyReport, partition: int, missing: OffsetSet) -> None:
    report.gaps += missing.range_count()
    for ends in islice(missing.ranges(), MAX_EXAMPLES - len(report.gap_examples)):
        first, last = (Address(report.source, partition, offset) for offset in ends)
        report.gap_examples.append(MissingRange(first, last))


def _refuse_other_sources(report: VerifyReport, parents: NamedParents, dead: NamedParents) -> None:
    if parents.any or dead.any or not parents.other_topics:
        return
    others = sorted(parents.other_topics)
    raise InputError(
        f"no record of {report.topic!r} was made from {report.source!r}: "
        f"their parents are in {', '.join(others)}",
        hint=f"verify hop by hop, such as `headwater verify {report.topic} --source {others[0]}`",
        topic=report.topic,
        source=report.source,
        parents_in=others,
    )
