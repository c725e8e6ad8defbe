"""Sends dead letters back to the topics they came from, each once.

A redriven record has the raw key and value, the headers that other applications set, and a
lineage whose only parent is the dead letter. By that lineage a later redrive recognizes it:
`history` reads what the topic already contains. No other state is kept, so a redrive that was
interrupted at any point is completed by the next one. A topic has one redrive at once.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from headwater.delivery.dead_letter.history import REDRIVE_JOB, History
from headwater.delivery.dead_letter.listing import DeadLetterFilter, Letters
from headwater.errors import InputError
from headwater.kafka import RecordProducer, RecordReader
from headwater.model import Address, Header, Lineage, Record
from headwater.model.dead_letter import REDRIVE_COUNT, REDRIVE_OF, DeadLetter
from headwater.model.header import (
    LINEAGE,
    PARENT_LINEAGE,
    STAMP_HEADERS,
    JobStamp,
    encode,
    parent_lineage_text,
)
from headwater.model.local_files import locked
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings, fault_points, load

MAX_REDRIVES = 3
# The job version in the stamp of redriven records.
_VERSION = "v1"
# Reported when acknowledged, and kept in memory until then, up to a megabyte each.
_FLUSH_EVERY = 100
# The client's default limit of one megabyte may be below the limit of the topic.
_LARGEST_VALUE = 256 * 1024 * 1024


class RedriveOutcome(Enum):
    """The result of a redrive for one dead letter."""

    REDRIVEN = "redriven"
    BEFORE = "redriven before"
    TOO_OFTEN = "redriven too often"
    NO_ORIGIN = "no origin"
    ORIGINAL_GONE = "original gone"
    NOT_THE_ORIGINAL = "not the original"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Handled:
    """A dead letter and its outcome, with the reason unless it was sent now."""

    letter: DeadLetter
    outcome: RedriveOutcome
    target: str | None
    why: str = ""


@dataclass
class RedriveReport:
    """Counts by outcome. A dry run counts as redriven what it would send."""

    topic: str
    run_id: str
    dry_run: bool
    counts: Counter[RedriveOutcome] = field(default_factory=Counter)

    @property
    def passed(self) -> bool:
        """No letter was refused: all selected ones were redriven, now or before."""
        return not set(self.counts) - {RedriveOutcome.REDRIVEN, RedriveOutcome.BEFORE}


# Why a letter is not sent.
_Refusal = tuple[RedriveOutcome, str]


@dataclass(frozen=True)
class _Sendable:
    """The record to send for a dead letter, and why it may differ from the original."""

    key: bytes | None
    value: bytes | None
    partition: int
    doubt: str | None = None


def redrive(
    topic: str,
    settings: Settings | None = None,
    *,
    target: str | None = None,
    choice: DeadLetterFilter | None = None,
    limit: int | None = None,
    max_redrives: int = MAX_REDRIVES,
    allow_unproven: bool = False,
    dry_run: bool = False,
    on_handled: Callable[[Handled], None] = lambda handled: None,
    progress: Progress = no_progress,
) -> RedriveReport:
    """Send dead letters back in order, without those that were sent before.

    Args:
        topic: an output, or a dead letter topic.
        settings: default: those of the environment and `headwater.toml`.
        target: a topic to send to instead of the original ones.
        limit: stop after sending this number of records.
        max_redrives: refuse a record that was redriven this often and failed again.
        allow_unproven: send also if the target can't show whether it was done before.
        on_handled: called for each letter; for those that are sent, after the acknowledgement.

    Raises:
        TopicNotFoundError: there is no such topic.
        InputError: a requested record does not exist, or another redrive is running.
        DeliveryError: records were not acknowledged; the next redrive sends those that are missing.
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    settings = settings or load()
    report = RedriveReport(topic, str(uuid.uuid4()), dry_run)
    letters = Letters(topic, choice or DeadLetterFilter(), settings, progress)
    report.topic = letters.topic
    decisions = _Decisions(target, max_redrives, allow_unproven)
    with _exclusive(letters.topic, settings, dry_run), RecordReader(settings.kafka) as reader:
        # Under the lock, so that no other redrive sends in between.
        decisions.histories = dict(letters.histories(target))
        properties = {"message.max.bytes": _LARGEST_VALUE}
        with RecordProducer(settings.kafka, **properties) as producer:
            waiting: list[Handled] = []
            for letter in letters:
                handled, content = decisions.handle(letter, reader)
                if content is not None and not dry_run:
                    _send(producer, handled, content, report.run_id)
                    fault_points.reach("record_redriven")
                waiting.append(handled)
                report.counts[handled.outcome] += 1
                if len(waiting) == _FLUSH_EVERY:
                    _flush(producer, waiting, on_handled)
                if report.counts[RedriveOutcome.REDRIVEN] == limit:
                    break
            _flush(producer, waiting, on_handled)
    return report


class _Decisions:
    """Decides which letters are sent, and keeps track of those that were."""

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
            return Handled(letter, RedriveOutcome.REDRIVEN, target), result
        outcome, why = result
        return Handled(letter, outcome, target, why), None

    def _decide(
        self, letter: DeadLetter, target: str | None, reader: RecordReader
    ) -> _Sendable | _Refusal:
        if target is None:
            return RedriveOutcome.NO_ORIGIN, "its headers do not name its origin; use --to"
        history = self.histories.get(target)
        if history is None:
            return RedriveOutcome.ORIGINAL_GONE, f"there is no topic {target!r}; use --to"
        if letter.identity in self._sent:
            return RedriveOutcome.BEFORE, "by another dead letter of the same record"
        copy = history.copies.get(letter.identity)
        if copy is not None:
            return RedriveOutcome.BEFORE, f"as {copy}"
        if letter.redrives >= self._max_redrives:
            count = letter.redrives
            return (
                RedriveOutcome.TOO_OFTEN,
                f"it failed again after {count} redrives; see --max-redrives",
            )
        return self._restore(letter, history, reader)

    def _restore(
        self, letter: DeadLetter, history: History, reader: RecordReader
    ) -> _Sendable | _Refusal:
        restored = _restore(letter, history.topic, reader, by_request=self._target is not None)
        if isinstance(restored, _Sendable) and not self._allow_unproven:
            doubt = history.doubt(letter.origin) or restored.doubt
            if doubt is not None:
                return RedriveOutcome.UNPROVEN, f"{doubt}; --allow-unproven sends it anyway"
        return restored


def _restore(
    letter: DeadLetter, target: str, reader: RecordReader, *, by_request: bool
) -> _Sendable | _Refusal:
    """The original record, compared with its topic as long as it exists there.

    Headers can be forged: without this check, write access to a dead letter topic would be
    enough to send records to any topic that the redrive can write to.
    """
    origin = letter.origin
    if origin is None:
        return _Sendable(letter.record.key, letter.record.value, -1)
    original = reader.fetch(origin)
    # To its own partition, after the original, where the next redrive searches for it.
    own = origin.topic == target and (isinstance(original, Record) or original.may_have_existed)
    partition = origin.partition if own else -1
    if isinstance(original, Record):
        if not _is_value_of(letter, original):
            return RedriveOutcome.NOT_THE_ORIGINAL, f"the value at {origin} differs"
        # The job may have changed the key.
        return _Sendable(original.key, original.value, partition)
    if letter.reference is not None:
        return RedriveOutcome.ORIGINAL_GONE, f"its value was only at {origin}: {original.value}"
    if not original.may_have_existed and not by_request:
        return (
            RedriveOutcome.NOT_THE_ORIGINAL,
            f"no record ever existed at {origin}: {original.value}",
        )
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
    """The redrive's stamp, the letter's stamp, the lineage with the letter as parent, then the
    headers of other applications.

    The error headers are not copied: the lineage leads to the letter, which has them.
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


def _flush(
    producer: RecordProducer, waiting: list[Handled], on_handled: Callable[[Handled], None]
) -> None:
    producer.flush()
    for handled in waiting:
        on_handled(handled)
    waiting.clear()


@contextmanager
def _exclusive(topic: str, settings: Settings, dry_run: bool) -> Iterator[None]:
    """Lock the topic: two redrives at once would not see each other's records and send both."""
    if dry_run:
        yield
        return
    path = settings.home_dir / "redrive" / f"{topic}.lock"

    def busy() -> InputError:
        return InputError(
            f"another redrive of {topic!r} is running: it holds {path}",
            hint="wait until it has finished",
            topic=topic,
        )

    with locked(path, busy):
        yield
