"""What is wrong with an event, and where."""

from __future__ import annotations

from headwater.errors import InputError


class BadEventError(InputError):
    """An event that can't be taken."""

    @property
    def errors(self) -> list[str]:
        """What is wrong, a field each."""
        return list(self.facts.get("errors") or [self.message])

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return int(self.facts.get("status", 422))
