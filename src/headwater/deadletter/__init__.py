"""Records that a job set aside: what they are, listing them, sending them back. No JVM."""

from headwater.deadletter.history import History
from headwater.deadletter.letter import (
    DeadLetter,
    Reference,
    dead_letter_topic,
    is_dead_letter_topic,
    read_letter,
)
from headwater.deadletter.listing import Choice, Listed, Summary, list_letters
from headwater.deadletter.redrive import Handled, Outcome, RedriveReport, redrive

__all__ = [
    "Choice",
    "DeadLetter",
    "Handled",
    "History",
    "Listed",
    "Outcome",
    "RedriveReport",
    "Reference",
    "Summary",
    "dead_letter_topic",
    "is_dead_letter_topic",
    "list_letters",
    "read_letter",
    "redrive",
]
