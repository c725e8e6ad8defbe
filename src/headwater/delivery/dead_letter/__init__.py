"""Dead letters: list and redrive them (no JVM), and the columns that Spark writes."""

from headwater.delivery.dead_letter.history import History
from headwater.delivery.dead_letter.listing import (
    DeadLetterFilter,
    Listed,
    Summary,
    list_dead_letters,
)
from headwater.delivery.dead_letter.original import RedriveOutcome
from headwater.delivery.dead_letter.redrive import Handled, RedriveReport, redrive

__all__ = [
    "DeadLetterFilter",
    "Handled",
    "History",
    "Listed",
    "RedriveOutcome",
    "RedriveReport",
    "Summary",
    "list_dead_letters",
    "redrive",
]
