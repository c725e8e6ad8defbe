"""Sends dead letters back to the topics they came from, each once.

A redriven record has the original's key, value and headers of other applications, and a
lineage whose only parent is the dead letter. By that lineage a later redrive recognizes it:
`history` reads what the topic already contains. No other state is kept, so a redrive that was
interrupted at any point is completed by the next one. A topic has one redrive at once.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwater.delivery.dead_letter.history import REDRIVE_JOB, History
from headwater.delivery.dead_letter.listing import DeadLetterFilter, Letters
from headwater.delivery.dead_letter.original import RedriveOutcome, Refusal, Restored, restore
from headwater.errors import InputError
from headwater.kafka import RecordProducer, RecordReader
from headwater.model import Address, Header, Lineage
from headwater.model.dead_letter import REDRIVE_COUNT, REDRIVE_OF, DeadLetter
from headwater.model.foreign_headers import limited
from headwater.model.header import (
    LINEAGE,
    PARENT_LINEAGE,
    STAMP_HEADERS,
    JobStamp,
    encode,
    parent_lineage_text,
)
from headwater.model.local_files import locked, state_folder
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings, fault_points, load

MAX_REDRIVES = 3
# The job version in the stamp of redriven records.
_VERSION = "v1"
# Reported when acknowledged, and kept in memory until then, up to a megabyte each.
_FLUSH_EVERY = 100
# The client's default limit of one megabyte may be below the limit of the topic.
_LARGEST_VALUE = 256 * 1024 * 1024


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
                    headers = redriven_headers(
                        letter,
                        report.run_id,
                        content.redrives,
                        limited(
                            content.headers,
                            settings.jobs.max_header_bytes,
                            settings.jobs.max_headers,
                        ),
                    )
                    producer.send(
                        handled.target or "",
                        content.value,
                        content.key,
                        headers=headers,
                        partition=content.partition,
                    )
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

    def handle(self, letter: DeadLetter, reader: RecordReader) -> tuple[Handled, Restored | None]:
        target = self._target or (letter.origin.topic if letter.origin else None)
        result = self._decide(letter, target, reader)
        if isinstance(result, Restored):
            self._sent.add(letter.identity)
            return Handled(letter, RedriveOutcome.REDRIVEN, target), result
        outcome, why = result
        return Handled(letter, outcome, target, why), None

    def _decide(
        self, letter: DeadLetter, target: str | None, reader: RecordReader
    ) -> Restored | Refusal:
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
        return self._restore(letter, history, reader)

    def _restore(
        self, letter: DeadLetter, history: History, reader: RecordReader
    ) -> Restored | Refusal:
        restored = restore(letter, history.topic, reader, by_request=self._target is not None)
        if not isinstance(restored, Restored):
            return restored
        if restored.redrives >= self._max_redrives:
            count = restored.redrives
            return (
                RedriveOutcome.TOO_OFTEN,
                f"it failed again after {count} redrives; see --max-redrives",
            )
        if not self._allow_unproven:
            doubt = history.doubt(letter.origin) or restored.doubt
            if doubt is not None:
                return RedriveOutcome.UNPROVEN, f"{doubt}; --allow-unproven sends it anyway"
        return restored


def redriven_headers(
    letter: DeadLetter, run_id: str, redrives: int, foreign: Iterable[Header]
) -> list[Header]:
    """The redrive's stamp, the letter's stamp, the lineage with the letter as parent, then the
    headers of other applications.

    The error headers are not copied: the lineage leads to the letter, which has them.

    Args:
        redrives: how often the record was redriven before.
    """
    count = redrives + 1
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
    return [*headers, *foreign]


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
    path = state_folder(settings.home_dir, "redrive") / f"{topic}.lock"

    def busy() -> InputError:
        return InputError(
            f"another redrive of {topic!r} is running: it holds {path}",
            hint="wait until it has finished",
            topic=topic,
        )

    with locked(path, busy):
        yield
