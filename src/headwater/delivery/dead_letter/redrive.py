"""Sending dead letters back to the topics they came from, each once.

A redriven record carries the raw key and value, the headers of others, and a lineage whose one
parent is the dead letter. That is also how a second redrive knows of it: `history` reads what
lies in the topic already. Nothing is noted elsewhere, so a redrive that was cut off at any
moment is finished by the next one. One redrive of a topic runs at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from headwater.delivery.dead_letter.history import REDRIVE_JOB, History
from headwater.delivery.dead_letter.listing import Choice, Letters
from headwater.errors import InputError
from headwater.kafka import RecordProducer, RecordReader
from headwater.model import Address, Header, Lineage, Record
from headwater.model.dead_letter import REDRIVE_COUNT, REDRIVE_OF, DeadLetter
from headwater.model.header_codec import encode
from headwater.model.headers import (
    LINEAGE,
    PARENT_LINEAGE,
    STAMP_HEADERS,
    JobStamp,
    parent_lineage_text,
)
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings, fault_points

MAX_REDRIVES = 3
# The version of what is done here, as the stamp of a redriven record tells it.
_VERSION = "v1"
# Told about when acknowledged, and held in memory until then, up to a megabyte each.
_FLUSH_EVERY = 100
# The client's own limit, one megabyte, would refuse what the topic may well take.
_LARGEST_VALUE = 256 * 1024 * 1024


class Outcome(Enum):
    """What was done with a dead letter."""

    REDRIVEN = "redriven"
    BEFORE = "redriven before"
    TOO_OFTEN = "redriven too often"
    NO_ORIGIN = "no origin"
    ORIGINAL_GONE = "original gone"
    NOT_THE_ORIGINAL = "not the original"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Handled:
    """A dead letter, what was done with it and, unless it was sent just now, why."""

    letter: DeadLetter
    outcome: Outcome
    target: str | None
    why: str = ""


@dataclass
class RedriveReport:
    """Numbers by outcome. A dry run counts as redriven what would be."""

    topic: str
    run_id: str
    dry_run: bool
    counts: Counter[Outcome] = field(default_factory=Counter)

    @property
    def passed(self) -> bool:
        """Nothing was refused: all that was chosen has been redriven, now or before."""
        return not set(self.counts) - {Outcome.REDRIVEN, Outcome.BEFORE}


# Why nothing is sent.
_Refusal = tuple[Outcome, str]


@dataclass(frozen=True)
class _Sendable:
    """What goes into the target for a dead letter, and why it may not be what it was."""

    key: bytes | None
    value: bytes | None
    partition: int
    doubt: str | None = None


def redrive(
    topic: str,
    settings: Settings,
    *,
    target: str | None = None,
    choice: Choice | None = None,
    limit: int | None = None,
    max_redrives: int = MAX_REDRIVES,
    allow_unproven: bool = False,
    dry_run: bool = False,
    tell: Callable[[Handled], None] = lambda handled: None,
    progress: Progress = no_progress,
) -> RedriveReport:
    """Send dead letters back, in their order, leaving out what was sent before.

    Args:
        topic: an output, or a dead letter topic itself.
        target: another topic than the ones they came from.
        limit: end after so many were sent.
        max_redrives: a record that was sent back so often and failed again is refused.
        allow_unproven: send also where the target no longer tells whether it was done before.
        tell: called for each, for those that were sent when they are acknowledged.

    Raises:
        TopicNotFoundError: there is no such topic.
        InputError: a record that was asked for is not there, or another redrive runs.
        DeliveryError: records were not acknowledged; the next redrive sends what is not there.
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    report = RedriveReport(topic, str(uuid.uuid4()), dry_run)
    letters = Letters(topic, choice or Choice(), settings, progress)
    report.topic = letters.topic
    judge = _Judge(target, max_redrives, allow_unproven)
    with _alone(letters.topic, settings, dry_run), RecordReader(settings.kafka) as reader:
        # Looked up when nobody else sends any more.
        judge.histories = dict(letters.histories(target))
        properties = {"message.max.bytes": _LARGEST_VALUE}
        with RecordProducer(settings.kafka, **properties) as producer:
            waiting: list[Handled] = []
            for letter in letters:
                handled, content = judge.handle(letter, reader)
                if content is not None and not dry_run:
                    _send(producer, handled, content, report.run_id)
                    fault_points.reach("record_redriven")
                waiting.append(handled)
                report.counts[handled.outcome] += 1
                if len(waiting) == _FLUSH_EVERY:
                    _settle(producer, waiting, tell)
                if report.counts[Outcome.REDRIVEN] == limit:
                    break
            _settle(producer, waiting, tell)
    return report


class _Judge:
    """Decides what is done with each letter, and remembers what was sent."""

    def __init__(self, target: str | None, max_redrives: int, allow_unproven: bool) -> None:
        self.histories: dict[str, History] = {}
        self._target = target
        self._max_redrives = max_redrives
        self._allow_unproven = allow_unproven
        self._sent: set[Address] = set()

    def handle(self, letter: DeadLetter, reader: RecordReader) -> tuple[Handled, _Sendable | None]:
        target = self._target or (letter.origin.topic if letter.origin else None)
        result = self._decide(letter, target, reader)
        if isinstance(result, _Sendable):
            self._sent.add(letter.identity)
            return Handled(letter, Outcome.REDRIVEN, target), result
        outcome, why = result
        return Handled(letter, outcome, target, why), None

    def _decide(
        self, letter: DeadLetter, target: str | None, reader: RecordReader
    ) -> _Sendable | _Refusal:
        if target is None:
            return Outcome.NO_ORIGIN, "its headers do not say where it came from; use --to"
        history = self.histories.get(target)
        if history is None:
            return Outcome.ORIGINAL_GONE, f"there is no topic {target!r}; use --to"
        if letter.identity in self._sent:
            return Outcome.BEFORE, "as another dead letter of the same record"
        copy = history.copies.get(letter.identity)
        if copy is not None:
            return Outcome.BEFORE, f"it is {copy}"
        if letter.redrives >= self._max_redrives:
            count = letter.redrives
            return Outcome.TOO_OFTEN, f"it failed again after {count} redrives; see --max-redrives"
        return self._restore(letter, history, reader)

    def _restore(
        self, letter: DeadLetter, history: History, reader: RecordReader
    ) -> _Sendable | _Refusal:
        restored = _restore(letter, history.topic, reader, by_request=self._target is not None)
        if isinstance(restored, _Sendable) and not self._allow_unproven:
            doubt = history.doubt(letter.origin) or restored.doubt
            if doubt is not None:
                return Outcome.UNPROVEN, f"{doubt}; --allow-unproven sends it all the same"
        return restored


def _restore(
    letter: DeadLetter, target: str, reader: RecordReader, *, by_request: bool
) -> _Sendable | _Refusal:
    """The record as it was, held against the original where that is still there.

    Headers may be forged: without this anybody who may write to a dead letter topic could make
    others send to a topic of his choice.
    """
    origin = letter.origin
    if origin is None:
        return _Sendable(letter.record.key, letter.record.value, -1)
    original = reader.fetch(origin)
    # To its own partition: behind itself, where the next redrive looks for it.
    own = origin.topic == target and (isinstance(original, Record) or original.was_there)
    partition = origin.partition if own else -1
    if isinstance(original, Record):
        if not _is_value_of(letter, original):
            return Outcome.NOT_THE_ORIGINAL, f"the value at {origin} is another one"
        # A job may have given it another key.
        return _Sendable(original.key, original.value, partition)
    if letter.reference is not None:
        return Outcome.ORIGINAL_GONE, f"only {origin} held its value: {original.value}"
    if not original.was_there and not by_request:
        return Outcome.NOT_THE_ORIGINAL, f"there never was a record at {origin}: {original.value}"
    doubt = None if by_request else f"it can't be compared with {origin}: {original.value}"
    return _Sendable(letter.record.key, letter.record.value, partition, doubt)


def _is_value_of(letter: DeadLetter, original: Record) -> bool:
    if letter.reference is None:
        return letter.record.value == original.value
    return hashlib.sha256(original.value or b"").hexdigest() == letter.reference.sha256


def _send(producer: RecordProducer, handled: Handled, content: _Sendable, run_id: str) -> None:
    producer.send(
        handled.target or "",
        content.value,
        content.key,
        headers=redriven_headers(handled.letter, run_id),
        partition=content.partition,
    )


def redriven_headers(letter: DeadLetter, run_id: str) -> list[Header]:
    """A stamp of its own, the letter's stamp, the letter as the parent; then those of others.

    The headers with the reason stay on the letter, to which the lineage leads.
    """
    count = letter.redrives + 1
    headers = list(JobStamp(REDRIVE_JOB, _VERSION, count).headers(STAMP_HEADERS))
    stamp = [(name, value or b"") for name, value in letter.record.headers[:3]]
    if {name for name, _ in stamp} == set(STAMP_HEADERS):
        text = parent_lineage_text(
            [(name, value.decode("utf-8", "replace")) for name, value in stamp]
        )
        headers.append((PARENT_LINEAGE, text.encode()))
    headers.append((LINEAGE, encode(Lineage(run_id, (letter.address,)))))
    headers.append((REDRIVE_COUNT, str(count).encode()))
    headers.append((REDRIVE_OF, str(letter.identity).encode()))
    return [*headers, *letter.foreign_headers()]


def _settle(
    producer: RecordProducer, waiting: list[Handled], tell: Callable[[Handled], None]
) -> None:
    producer.flush()
    for handled in waiting:
        tell(handled)
    waiting.clear()


@contextmanager
def _alone(topic: str, settings: Settings, dry_run: bool) -> Iterator[None]:
    """Two at once would each find that the other's records are not there yet."""
    if dry_run:
        yield
        return
    folder = settings.home_dir / "redrive"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{topic}.lock").open("a") as file:
        try:
            # Ends with the process, however that ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another redrive of {topic!r} runs: it holds {file.name}",
                hint="wait until it has ended",
                topic=topic,
            ) from None
        yield
