"""The headers that a Headwater job puts on its records, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model import Header

JOB_NAME = "job_name"
JOB_VERSION = "job_version"
BATCH_VERSION = "batch_version"
PARENT_LINEAGE = "parent_lineage"

# Headwater's own: a record's come first, those of its parent are not handed on under these names.
OWN_HEADERS = (JOB_NAME, JOB_VERSION, BATCH_VERSION, PARENT_LINEAGE)


@dataclass(frozen=True, slots=True)
class JobStamp:
    """Which job, in which version, in which micro-batch made a record."""

    job_name: str
    job_version: str
    batch_version: int

    def headers(self, order: Sequence[str]) -> tuple[Header, ...]:
        """The stamp as headers; each shipped job has an order of its own."""
        values = {
            JOB_NAME: self.job_name,
            JOB_VERSION: self.job_version,
            BATCH_VERSION: str(self.batch_version),
        }
        return tuple((name, values[name].encode()) for name in order)
