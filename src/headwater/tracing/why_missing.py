"""`why_missing`: what became of an input record between its topic and an output topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from headwater.errors import InputError
from headwater.kafka import Absence, RecordReader, describe_topic
from headwater.model import Address, AddressRange, Record
from headwater.model.dead_letter import read_letter
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import (
    dead_letter_topic,
    is_dead_letter_topic,
    late_topic,
    parents_topic,
)
from headwater.settings import Settings, load
from headwater.storage.checkpoint import CheckpointState
from headwater.tracing.fate import Explainer, Fate, Verdict, WhyMissing, conclude
from headwater.tracing.route import Checkpoints, find_route
from headwater.tracing.scan import Scan, scan

# A redriven record may fail again; after this many times it counts as dead-lettered.
_MAX_REDRIVES = 10
# Outputs that are followed per hop: a record that was split may have made millions.
_MAX_LIVE = 10_000


def why_missing(
    address: Address | str,
    topic: str,
    settings: Settings | None = None,
    *,
    checkpoint: Path | None = None,
    explainers: Sequence[Explainer] = (),
    progress: Progress = no_progress,
) -> WhyMissing:
    """Find out what became of a record that should have an output in `topic`.

    Reads, for each hop, the output, its dead letter topic and its topic of late records, and the
    available checkpoints of the jobs. Does not start Spark.

    Args:
        address: the record, as `Address` or text such as `visits/0@17`.
        settings: default: those of the environment and `headwater.toml`.
        checkpoint: of a job in between, if it is not in the home.
        explainers: for jobs with state.

    Raises:
        TopicNotFoundError: there is no topic `topic`.
        InputError: nothing in `topic` was made from the record's topic, but from others.
        CheckpointError: `checkpoint` is damaged, or no batch was started with it.
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    address, settings = Address.of(address), settings or load()
    if address.topic == topic:
        raise InputError(
            f"{address} is a record of {topic!r} itself", hint="--in names a topic made from it"
        )
    describe_topic(topic, settings.kafka)
    with RecordReader(settings.kafka) as reader:
        fetched = reader.fetch(address)
    if isinstance(fetched, Absence) and not fetched.may_have_existed:
        sentence = f"no record at {address}: {fetched.value}"
        verdict = Verdict(address, topic, Fate.NEVER_WAS, sentence)
        return WhyMissing(address, topic, verdict, [verdict])
    # Read before the topics: records that a job commits meanwhile must not count as read and lost.
    checkpoints = Checkpoints(settings, checkpoint)
    route = find_route(address.topic, topic, checkpoints, settings, progress)
    search = _Search(settings, checkpoints, explainers, progress)
    gone = {address: fetched} if isinstance(fetched, Absence) else {}
    live: dict[str, set[Address]] = {address.topic: {address}}
    for output, inputs in route.items():
        wanted = {record for each in inputs for record in live.get(each, ())}
        live[output] = search.hop(output, wanted, gone) if wanted else set()
    return conclude(address, topic, search.verdicts)


class _Search:
    """Follows records hop by hop and collects the verdicts."""

    def __init__(
        self,
        settings: Settings,
        checkpoints: Checkpoints,
        explainers: Sequence[Explainer],
        progress: Progress,
    ) -> None:
        self.verdicts: list[Verdict] = []
        self._settings = settings
        self._checkpoints = checkpoints
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
        lists = {listing.address for records in listed.outputs.values() for listing in records}
        lists |= {listing.address for found in listed.within.values() for listing, _ in found}
        made = scan(output, wanted | lists, self._settings, self._progress)
        dead, late = (
            scan(topic, wanted, self._settings, self._progress)
            for topic in (dead_letter_topic(output), late_topic(output))
        )
        live: set[Address] = set()
        for record in sorted(wanted):
            records = _made_from(record, made, listed)
            outputs = _addresses(records)
            letters = dead.outputs.get(record, [])
            if outputs:
                live |= set(outputs[: _MAX_LIVE - len(live)])
                remark = self._remark(record, output, records)
                self._add(_present(record, output, outputs, remark))
            if letters:
                copies = self._redriven(record, letters) if redrives < _MAX_REDRIVES else set()
                self._add(_dead_lettered(record, output, letters, sorted(copies)))
                if copies:
                    live |= self.hop(output, copies, {}, redrives + 1)
            if record in late.outputs:
                self._add(_late(record, output, late.outputs[record]))
            elif not outputs and not letters and (within := _made_within(record, made, listed)):
                self._add(_within(record, output, within))
            elif not outputs and not letters:
                self._add(self._absent(record, output, (made, dead, late), gone.get(record)))
        return live

    def _add(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)

    def _remark(self, record: Address, output: str, outputs: Sequence[Record]) -> str | None:
        checkpoint = self._checkpoints.of(record.topic, output)
        remarks = (each.remark(record, output, outputs, checkpoint) for each in self._explainers)
        return next((remark for remark in remarks if remark), None)

    def _redriven(self, record: Address, letters: Sequence[Record]) -> set[Address]:
        """Redriven copies of a record: later records of the same partition."""
        wanted = {letter.address for letter in letters}
        start = {record.partition: record.offset + 1}
        scanned = scan(record.topic, wanted, self._settings, self._progress, start=start)
        return {copy.address for copies in scanned.outputs.values() for copy in copies}

    def _absent(
        self, record: Address, output: str, scans: Sequence[Scan], absence: Absence | None
    ) -> Verdict:
        """Why nothing was made from a record."""
        if is_dead_letter_topic(record.topic):
            return Verdict(record, output, Fate.NOT_YET_READ, f"{record} was not redriven")
        checkpoint = self._checkpoints.of(record.topic, output)
        unread = _unread(record, output, checkpoint, scans)
        if absence is not None:
            text = (
                unread.sentence if unread else f"the job that writes {output} has already read it"
            )
            sentence = f"{record} is gone ({absence.value}) and has no output: {text}"
            return Verdict(record, output, Fate.EXPIRED, sentence, estimate=checkpoint is None)
        if unread is not None:
            return unread
        for explainer in self._explainers:
            explained = explainer.explain(record, output, checkpoint)
            if explained is not None:
                return explained
        return _passed_over(record, output, checkpoint, scans[0])


def _made_from(record: Address, made: Scan, listed: Scan) -> list[Record]:
    """Records that name the record, or that name a record which lists it for them."""
    lists = [listing.address for listing in listed.outputs.get(record, ())]
    return [output for each in (record, *lists) for output in made.outputs.get(each, ())]


def _made_within(record: Address, made: Scan, listed: Scan) -> list[tuple[Record, AddressRange]]:
    """Records with a range that contains the record, or that name a record which lists one."""
    found = list(made.within.get(record, ()))
    for listing, within in listed.within.get(record, ()):
        found += [(output, within) for output in made.outputs.get(listing.address, ())]
    return found


def _within(record: Address, output: str, found: Sequence[tuple[Record, AddressRange]]) -> Verdict:
    """Not followed: each further record would be a guess, and there may be a batch of them."""
    (first, within), others = found[0], len(found) - 1
    more = f" and {others} more records" if others else ""
    sentence = (
        f"{first.address}{more} may be made from {record}, which lies within {within}: the job "
        f"that writes {output} has a step that is not followed row by row"
    )
    evidence = _addresses([made for made, _ in found])
    return Verdict(record, output, Fate.WITHIN, sentence, evidence)


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
    reason = _reason(letters[0]) or ": no reason given"
    sentence = f"{record} was sent to the dead letter topic as {letters[0].address}{reason}"
    if copies:
        sentence += f"; it was redriven as {', '.join(map(str, copies))}"
    evidence = (*_addresses(letters), *copies)
    return Verdict(record, output, Fate.DEAD_LETTERED, sentence, evidence, went_on=bool(copies))


def _late(record: Address, output: str, records: Sequence[Record]) -> Verdict:
    sentence = f"{record} arrived after the watermark and was sent to {records[0].address}"
    sentence += _reason(records[0])
    return Verdict(record, output, Fate.LATE, sentence, _addresses(records))


def _unread(
    record: Address, output: str, checkpoint: CheckpointState | None, scans: Sequence[Scan]
) -> Verdict | None:
    """The verdict for a record that the job has not read; None if it has read it."""
    topic, partition, offset = record.topic, record.partition, record.offset
    if checkpoint is None:
        newest = max(each.newest.get((topic, partition), -1) for each in scans)
        if offset <= newest:
            return None
        highest = f"{topic}/{partition}@{newest}" if newest >= 0 else "none of its partition"
        sentence = (
            f"no checkpoint is available, and the newest record that {output} was made from is "
            f"{highest}"
        )
        return Verdict(record, output, Fate.NOT_YET_READ, sentence, estimate=True)
    started = checkpoint.started.get(topic, {}).get(partition, 0)
    committed = checkpoint.committed.get(topic, {}).get(partition, started)
    planned = checkpoint.planned.get(topic, {}).get(partition, started)
    where = f"according to {checkpoint.path}"
    if offset < started:
        sentence = f"the job that writes {output} started at {topic}/{partition}@{started}, {where}"
        return Verdict(record, output, Fate.NEVER_READ, sentence)
    if offset < committed:
        return None
    if offset < planned:
        batch = checkpoint.batch
        sentence = (
            f"batch {batch} of the job that writes {output} contains it and is not committed, "
            f"{where}"
        )
    else:
        sentence = f"the job that writes {output} reads {topic}/{partition}@{planned} next, {where}"
    return Verdict(record, output, Fate.NOT_YET_READ, sentence)


def _passed_over(
    record: Address, output: str, checkpoint: CheckpointState | None, made: Scan
) -> Verdict:
    estimate = checkpoint is None
    if made.unlisted:
        sentence = (
            f"{made.unlisted} records of {output} have more parents than their headers list; "
            f"{record} may be one of those"
        )
        return Verdict(record, output, Fate.UNCERTAIN, sentence, estimate=estimate)
    how = "later ones have outputs" if checkpoint is None else f"see {checkpoint.path}"
    sentence = (
        f"the job that writes {output} has already read {record} ({how}) and wrote neither an "
        "output nor a dead letter"
    )
    return Verdict(record, output, Fate.FILTERED, sentence, estimate=estimate)


def _reason(record: Record) -> str:
    letter = read_letter(record)
    parts = [_plain(text) for text in (letter.reason, letter.message) if text]
    return f": {', '.join(parts)}" if parts else ""


def _plain(text: str) -> str:
    """Header text, in which bytes that are not UTF-8 are lone surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
