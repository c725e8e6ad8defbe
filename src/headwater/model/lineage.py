"""What a record's headers say about where it comes from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headwater.model.address import Address


@dataclass(frozen=True, slots=True)
class Lineage:
    """The parents of a record, and the run that made it.

    `unlisted` counts parents beyond those that are listed: the list is bounded. `rest` names the
    records that list them: their parents are this record's, too. `ordinal` tells
    records apart that were made from the same parents. `record_id` is set only where it can't
    be derived from the rest, which is when parents are unlisted.
    """

    run_id: str | None
    parents: tuple[Address, ...]
    unlisted: int = 0
    ordinal: int = 0
    record_id: str | None = None
    rest: tuple[Address, ...] = ()

    @property
    def parent_count(self) -> int:
        return len(self.parents) + self.unlisted

    def identity(self, job_name: str) -> str:
        """The record id: the same for every copy that a retry or a replay makes."""
        if self.record_id is not None:
            return self.record_id
        return record_id(job_name, ",".join(map(str, self.parents)), self.ordinal)


def record_id(job_name: str, parents: str, ordinal: int = 0) -> str:
    """Derive an id from the job, its input and the place among the outputs of that input.

    No clock and no chance: the same input gives the same id.
    """
    text = "\0".join((job_name, parents, str(ordinal)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
