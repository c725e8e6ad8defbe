"""What is wrong with an event, and where."""

from __future__ import annotations


class EventProblem(ValueError):
    """An event that can't be taken; `errors` name the fields.

    Not one of Headwater's own errors: it never leaves the service but as an answer.
    """

    def __init__(self, *errors: str, status: int = 422) -> None:
        super().__init__("; ".join(errors))
        self.errors = list(errors)
        self.status = status
