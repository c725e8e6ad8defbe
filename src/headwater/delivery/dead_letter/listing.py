"""Lists dead letters with their reason, and whether they were redriven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from headwater.delivery.dead_letter.history import History, Starts, read_history
from headwater.errors import InputError, TopicNotFoundError
from headwater.kafka import partition_states, read_topic
from headwater.model import Address
from headwater.model.dead_letter import DeadLetter, read_letter
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import dead_letter_topic, is_dead_letter_topic
from headwater.settings import Settings, load

NO_REASON = "no readable reason"


@dataclass(frozen=True)
class DeadLetterFilter:
    """Selects dead letters; the default selects all.

    `records` are addresses of dead letters or of the records they were made from. Times are
    the Kafka timestamps of the dead letters.
    """

    reason: str | None = None
    records: frozenset[Address] = frozenset()
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, letter: DeadLetter) -> bool:
        if self.records and not self.records & {letter.address, letter.identity}:
            return False
        if self.reason is not None and (letter.reason or NO_REASON) != self.reason:
            return False
        milliseconds = letter.record.timestamp_ms or 0
        if self.since is not None and milliseconds < self.since.timestamp() * 1000:
            return False
        return self.until is None or milliseconds < self.until.timestamp() * 1000


class Letters:
    """The selected letters of a topic up to its end at construction: each pass gives the same."""

    def __init__(
        self, topic: str, choice: DeadLetterFilter, settings: Settings, progress: Progress
    ) -> None:
        self.topic = topic if is_dead_letter_topic(topic) else dead_letter_topic(topic)
        self._choice = choice
        self._settings = settings
        self._progress = progress
        try:
            states = partition_states(self.topic, settings.kafka)
        except TopicNotFoundError as error:
            raise TopicNotFoundError(
                f"there is no topic {self.topic!r}",
                hint="a job creates it with its output; `headwater topics list` shows the topics",
                topic=self.topic,
            ) from error
        self._starts = {state.partition: state.first for state in states}
        self._ends = {state.partition: state.end for state in states}

    def __iter__(self) -> Iterator[DeadLetter]:
        records = read_topic(
            self.topic,
            self._settings.kafka,
            start=self._starts,
            until=self._ends,
            progress=self._progress,
        )
        try:
            for record in records:
                letter = read_letter(record)
                if self._choice.matches(letter):
                    yield letter
        finally:
            records.close()

    def histories(self, target: str | None) -> Mapping[str, History]:
        """Earlier redrives of the letters, by the topic they were written to.

        Topics that letters name and that do not exist are left out.

        Raises:
            InputError: a requested record is not among the dead letters.
        """
        starts, unmatched = Starts(), set(self._choice.records)
        for letter in self:
            unmatched -= {letter.address, letter.identity}
            if letter.origin is not None:
                starts.add(letter.origin)
        for address in sorted(unmatched):
            raise InputError(
                f"{self.topic!r} has no dead letter with address or origin {address}",
                hint=f"`headwater dead-letter list {self.topic}` shows its dead letters",
                topic=self.topic,
                record=str(address),
            )
        if target is not None:
            # Copies of records of other topics may be anywhere in it.
            return {target: read_history(target, self.topic, None, self._settings, self._progress)}
        histories = {}
        for topic, topic_starts in starts.offsets.items():
            with suppress(TopicNotFoundError):
                histories[topic] = read_history(
                    topic, self.topic, topic_starts, self._settings, self._progress
                )
        return histories


@dataclass(frozen=True, slots=True)
class Listed:
    """A dead letter, and the address of its copy if it was redriven."""

    letter: DeadLetter
    copy: Address | None


@dataclass
class Summary:
    """Number of dead letters by reason, and of those that were redriven."""

    topic: str
    total: int = 0
    redriven: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def list_dead_letters(
    topic: str,
    settings: Settings | None = None,
    *,
    choice: DeadLetterFilter | None = None,
    target: str | None = None,
    progress: Progress = no_progress,
) -> tuple[Summary, Iterator[Listed]]:
    """The dead letters of an output in topic order; iterating them fills the summary.

    Args:
        topic: an output, or a dead letter topic.
        settings: default: those of the environment and `headwater.toml`.
        target: topic in which redriven records are searched; default: those they came from.

    Raises:
        TopicNotFoundError: there is no such topic.
        InputError: a requested record does not exist.
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    letters = Letters(topic, choice or DeadLetterFilter(), settings or load(), progress)
    histories = letters.histories(target)
    summary = Summary(letters.topic)
    return summary, _listed(letters, histories, target, summary)


def _listed(
    letters: Letters, histories: Mapping[str, History], target: str | None, summary: Summary
) -> Iterator[Listed]:
    for letter in letters:
        history = histories.get(target or (letter.origin.topic if letter.origin else ""))
        copy = history.copies.get(letter.identity) if history else None
        summary.total += 1
        summary.redriven += copy is not None
        summary.reasons[letter.reason or NO_REASON] += 1
        yield Listed(letter, copy)
