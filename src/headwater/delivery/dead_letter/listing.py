"""Listing dead letters: which there are, why, and what was redriven."""

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
from headwater.settings import Settings

NO_REASON = "no readable reason"


@dataclass(frozen=True)
class Choice:
    """Which dead letters are meant; without anything set, all.

    `records` are addresses of dead letters, or of the records that they were made from. Times
    are those of the dead letters, as Kafka holds them.
    """

    reason: str | None = None
    records: frozenset[Address] = frozenset()
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, letter: DeadLetter) -> bool:
        if self.records and not self.records & {letter.address, letter.identity}:
            return False
        if self.reason is not None and (letter.reason or NO_REASON) != self.reason:
            return False
        milliseconds = letter.record.timestamp_ms or 0
        if self.since is not None and milliseconds < self.since.timestamp() * 1000:
            return False
        return self.until is None or milliseconds < self.until.timestamp() * 1000


class Letters:
    """The chosen letters of a topic, as it was at first: each pass gives the same ones."""

    def __init__(self, topic: str, choice: Choice, settings: Settings, progress: Progress) -> None:
        self.topic = topic if is_dead_letter_topic(topic) else dead_letter_topic(topic)
        self._choice = choice
        self._settings = settings
        self._progress = progress
        try:
            states = partition_states(self.topic, settings.kafka)
        except TopicNotFoundError as error:
            raise TopicNotFoundError(
                f"there is no topic {self.topic!r}",
                hint="a job makes it with its output; `headwater topics list` shows what is there",
                topic=self.topic,
            ) from error
        self._begins = {state.partition: state.first for state in states}
        self._ends = {state.partition: state.end for state in states}

    def __iter__(self) -> Iterator[DeadLetter]:
        records = read_topic(
            self.topic,
            self._settings.kafka,
            start=self._begins,
            until=self._ends,
            progress=self._progress,
        )
        try:
            for record in records:
                letter = read_letter(record)
                if self._choice.takes(letter):
                    yield letter
        finally:
            records.close()

    def histories(self, target: str | None) -> Mapping[str, History]:
        """What the topics to which the letters go tell of earlier redrives.

        Topics that letters name and that are not there have none.

        Raises:
            InputError: a record that was asked for is not among the dead letters.
        """
        starts, unmatched = Starts(), set(self._choice.records)
        for letter in self:
            unmatched -= {letter.address, letter.identity}
            if letter.origin is not None:
                starts.take(letter.origin)
        for address in sorted(unmatched):
            raise InputError(
                f"no dead letter of {self.topic!r} is, or was made from, {address}",
                hint=f"`headwater dead-letter list {self.topic}` shows those that there are",
                topic=self.topic,
                record=str(address),
            )
        if target is not None:
            # What came from elsewhere may lie anywhere in it.
            return {target: read_history(target, self.topic, None, self._settings, self._progress)}
        found = {}
        for topic, begins in starts.offsets.items():
            with suppress(TopicNotFoundError):
                found[topic] = read_history(
                    topic, self.topic, begins, self._settings, self._progress
                )
        return found


@dataclass(frozen=True, slots=True)
class Listed:
    """A dead letter, and where it lies again if it was redriven."""

    letter: DeadLetter
    copy: Address | None


@dataclass
class Summary:
    """How many there are, by reason, and how many of them were redriven."""

    topic: str
    total: int = 0
    redriven: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def list_letters(
    topic: str,
    settings: Settings,
    *,
    choice: Choice | None = None,
    target: str | None = None,
    progress: Progress = no_progress,
) -> tuple[Summary, Iterator[Listed]]:
    """The dead letters of an output, in the order of their topic; the summary fills on the way.

    Args:
        topic: an output, or a dead letter topic itself.
        target: where redriven records are looked for; default: the topics they came from.

    Raises:
        TopicNotFoundError: there is no such topic.
        InputError: a record that was asked for is not there.
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    letters = Letters(topic, choice or Choice(), settings, progress)
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
