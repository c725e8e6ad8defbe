"""`why_missing`: what became of an input record on its way into a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from headwater.errors import InputError
from headwater.kafka import Absence, RecordReader, describe_topic
from headwater.model import Address, Record
from headwater.model.dead_letter import read_letter
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import (
    dead_letter_topic,
    is_dead_letter_topic,
    late_topic,
    parents_topic,
)
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState
from headwater.tracing.fate import Explainer, Fate, Verdict, WhyMissing, answer
from headwater.tracing.route import Readings, find_route
from headwater.tracing.scan import Scan, scan

# One that is redriven fails again, at most so often; then the answer is that it was set aside.
_MAX_REDRIVES = 10
# Of one record, on the way; one that was taken apart may have made millions.
_MAX_LIVE = 10_000


def why_missing(
    address: Address,
    topic: str,
    settings: Settings,
    *,
    checkpoint: Path | None = None,
    explainers: Sequence[Explainer] = (),
    progress: Progress = no_progress,
) -> WhyMissing:
    """Tell what became of a record that should have an output in `topic`, or where that is.

    Reads, of every hop on the way, the output, its dead letter and what came late, and the
    checkpoints of the jobs as far as they are at hand. No Spark is started.

    Args:
        checkpoint: of a job on the way, if it does not lie in the home.
        explainers: know more about jobs with state.

    Raises:
        TopicNotFoundError: there is no topic `topic`.
        InputError: nothing in `topic` was made from the record's topic, but from others.
        CheckpointError: `checkpoint` is damaged, or nothing was begun with it.
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    if address.topic == topic:
        raise InputError(
            f"{address} is a record of {topic!r} itself", hint="--in names a topic made from it"
        )
    describe_topic(topic, settings.kafka)
    with RecordReader(settings.kafka) as reader:
        there = reader.fetch(address)
    if isinstance(there, Absence) and not there.was_there:
        verdict = Verdict(address, topic, Fate.NEVER_WAS, f"no record at {address}: {there.value}")
        return WhyMissing(address, topic, verdict, [verdict])
    # Before any topic: what a job commits while they are read must not count as read and lost.
    readings = Readings(settings, checkpoint)
    route = find_route(address.topic, topic, readings, settings, progress)
    search = _Search(settings, readings, explainers, progress)
    gone = {address: there} if isinstance(there, Absence) else {}
    live: dict[str, set[Address]] = {address.topic: {address}}
    for output, inputs in route.items():
        wanted = {record for each in inputs for record in live.get(each, ())}
        live[output] = search.hop(output, wanted, gone) if wanted else set()
    return answer(address, topic, search.verdicts)


class _Search:
    """Follows records hop by hop, and keeps what it finds."""

    def __init__(
        self,
        settings: Settings,
        readings: Readings,
        explainers: Sequence[Explainer],
        progress: Progress,
    ) -> None:
        self.verdicts: list[Verdict] = []
        self._settings = settings
        self._readings = readings
        self._explainers = explainers
        self._progress = progress

    def hop(
        self,
        output: str,
        wanted: AbstractSet[Address],
        gone: Mapping[Address, Absence],
        redrives: int = 0,
    ) -> set[Address]:
        """The records of `output` that were made from the wanted ones."""
        listed = scan(parents_topic(output), wanted, self._settings, self._progress)
        lists = {listing.address for found in listed.found.values() for listing in found}
        made = scan(output, wanted | lists, self._settings, self._progress)
        dead, late = (
            scan(topic, wanted, self._settings, self._progress)
            for topic in (dead_letter_topic(output), late_topic(output))
        )
        live: set[Address] = set()
        for record in sorted(wanted):
            found = _made_from(record, made, listed)
            outputs = _addresses(found)
            letters = dead.found.get(record, [])
            if outputs:
                live |= set(outputs[: _MAX_LIVE - len(live)])
                remark = self._remark(record, output, found)
                self._add(_present(record, output, outputs, remark))
            if letters:
                copies = self._redriven(record, letters) if redrives < _MAX_REDRIVES else set()
                self._add(_dead_lettered(record, output, letters, sorted(copies)))
                if copies:
                    live |= self.hop(output, copies, {}, redrives + 1)
            if record in late.found:
                self._add(_late(record, output, late.found[record]))
            elif not outputs and not letters:
                self._add(self._absent(record, output, (made, dead, late), gone.get(record)))
        return live

    def _add(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)

    def _remark(self, record: Address, output: str, found: Sequence[Record]) -> str | None:
        reading = self._readings.of(record.topic, output)
        remarks = (each.remark(record, output, found, reading) for each in self._explainers)
        return next((remark for remark in remarks if remark), None)

    def _redriven(self, record: Address, letters: Sequence[Record]) -> set[Address]:
        """Copies of a record that lie in its topic again: in its partition, behind it."""
        wanted = {letter.address for letter in letters}
        start = {record.partition: record.offset + 1}
        seen = scan(record.topic, wanted, self._settings, self._progress, start=start)
        return {copy.address for copies in seen.found.values() for copy in copies}

    def _absent(
        self, record: Address, output: str, scans: Sequence[Scan], absence: Absence | None
    ) -> Verdict:
        """Why nothing was made from a record."""
        if is_dead_letter_topic(record.topic):
            return Verdict(record, output, Fate.NOT_YET_READ, f"{record} was not redriven")
        reading = self._readings.of(record.topic, output)
        unread = _unread(record, output, reading, scans)
        if absence is not None:
            text = unread.sentence if unread else f"the job into {output} has read past it"
            sentence = f"{record} is gone ({absence.value}), and has no output: {text}"
            return Verdict(record, output, Fate.EXPIRED, sentence, estimate=reading is None)
        if unread is not None:
            return unread
        for explainer in self._explainers:
            explained = explainer.explain(record, output, reading)
            if explained is not None:
                return explained
        return _passed_over(record, output, reading, scans[0])


def _made_from(record: Address, made: Scan, listed: Scan) -> list[Record]:
    """Those that name the record, or one that lists it for them."""
    lists = [listing.address for listing in listed.found.get(record, ())]
    return [output for each in (record, *lists) for output in made.found.get(each, ())]


def _addresses(records: Sequence[Record]) -> tuple[Address, ...]:
    return tuple(record.address for record in records)


def _present(
    record: Address, output: str, outputs: tuple[Address, ...], remark: str | None
) -> Verdict:
    named = ", ".join(map(str, outputs[:3])) + (" and more" if len(outputs) > 3 else "")
    sentence = f"{named} was made from {record}" + (f"; {remark}" if remark else "")
    return Verdict(record, output, Fate.PRESENT, sentence, outputs, went_on=True)


def _dead_lettered(
    record: Address, output: str, letters: Sequence[Record], copies: Sequence[Address]
) -> Verdict:
    told = _reason(letters[0]) or ": no reason given"
    sentence = f"{record} was set aside as {letters[0].address}{told}"
    if copies:
        sentence += f"; it was redriven as {', '.join(map(str, copies))}"
    evidence = (*_addresses(letters), *copies)
    return Verdict(record, output, Fate.DEAD_LETTERED, sentence, evidence, went_on=bool(copies))


def _late(record: Address, output: str, records: Sequence[Record]) -> Verdict:
    sentence = f"{record} came too late for {output} and is {records[0].address}"
    sentence += _reason(records[0])
    return Verdict(record, output, Fate.LATE, sentence, _addresses(records))


def _unread(
    record: Address, output: str, reading: CheckpointState | None, scans: Sequence[Scan]
) -> Verdict | None:
    """That a job has not read a record; None if it has."""
    topic, partition, offset = record.topic, record.partition, record.offset
    if reading is None:
        newest = max(seen.newest.get((topic, partition), -1) for seen in scans)
        if offset <= newest:
            return None
        highest = f"{topic}/{partition}@{newest}" if newest >= 0 else "none of its partition"
        sentence = (
            f"no checkpoint is at hand, and the newest record that {output} was made from is "
            f"{highest}"
        )
        return Verdict(record, output, Fate.NOT_YET_READ, sentence, estimate=True)
    began = reading.started.get(topic, {}).get(partition, 0)
    committed = reading.committed.get(topic, {}).get(partition, began)
    begun = reading.begun.get(topic, {}).get(partition, began)
    where = f"as {reading.checkpoint} says"
    if offset < began:
        sentence = f"the job into {output} began at {topic}/{partition}@{began}, {where}"
        return Verdict(record, output, Fate.NEVER_READ, sentence)
    if offset < committed:
        return None
    if offset < begun:
        sentence = f"batch {reading.batch} of the job into {output} has it and is not done, {where}"
    else:
        sentence = f"the job into {output} reads {topic}/{partition}@{begun} next, {where}"
    return Verdict(record, output, Fate.NOT_YET_READ, sentence)


def _passed_over(
    record: Address, output: str, reading: CheckpointState | None, made: Scan
) -> Verdict:
    estimate = reading is None
    if made.unlisted:
        sentence = (
            f"{made.unlisted} records of {output} have more parents than their headers list; "
            f"{record} may be among those"
        )
        return Verdict(record, output, Fate.UNCERTAIN, sentence, estimate=estimate)
    how = "later ones have outputs" if reading is None else f"{reading.checkpoint} says so"
    sentence = (
        f"the job into {output} has read past {record} ({how}), made nothing from it and did not "
        "set it aside"
    )
    return Verdict(record, output, Fate.FILTERED, sentence, estimate=estimate)


def _reason(record: Record) -> str:
    letter = read_letter(record)
    told = [_plain(text) for text in (letter.reason, letter.message) if text]
    return f": {', '.join(told)}" if told else ""


def _plain(text: str) -> str:
    """Text of a header, in which bytes that are not UTF-8 are half surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
