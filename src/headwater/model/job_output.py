"""All that a job made, as something to ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobOutput:
    """What a job made; of one version, of some batches (both ends included)."""

    job_name: str
    job_version: str | None = None
    batches: tuple[int, int] | None = None

    def __str__(self) -> str:
        text = f"job {self.job_name!r}"
        if self.job_version is not None:
            text += f" in version {self.job_version!r}"
        if self.batches is not None:
            text += " in batches {}..{}".format(*self.batches)
        return text
