"""Options of `headwater run` for a user's own file: settings, delivery mode, checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import InputError


@dataclass
class CommandLine:
    """Options of `headwater run` for a user's own file.

    Attributes:
        overrides: settings of `--set`, by section.
        delivery: for all jobs of the file.
        checkpoint: for its only job.
        accept: for all jobs of the file.
    """

    overrides: Mapping[str, Any] = field(default_factory=dict)
    delivery: str | None = None
    checkpoint: str | None = None
    accept: Sequence[str] = ()
    _checkpoint_of: str | None = None

    def checkpoint_for(self, job_name: str) -> str | None:
        """The checkpoint of the job.

        Raises:
            InputError: another job of the file has it.
        """
        if self.checkpoint is not None:
            self._checkpoint_of = self._checkpoint_of or job_name
            if job_name != self._checkpoint_of:
                raise InputError(
                    f"--checkpoint is for one job, and this file has two: {self._checkpoint_of!r} "
                    f"and {job_name!r}",
                    hint="omit --checkpoint, and set it in the file: LineageJob(…, checkpoint=…)",
                )
        return self.checkpoint


# Of the running command; empty in other programs.
current = CommandLine()


@contextmanager
def use(chosen: CommandLine) -> Iterator[None]:
    """Use these options while the body runs a user's own file."""
    global current
    previous, current = current, chosen
    try:
        yield
    finally:
        current = previous
