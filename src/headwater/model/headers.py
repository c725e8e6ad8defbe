"""The headers of a record that a Headwater job wrote: names, order, and reading them back.

First the stamp (`job_name`, `job_version`, `batch_version`, in an order of the job's own), then
`parent_lineage` if the parent carried a stamp, then `lineage`; then the headers that others put
on the parent, as they were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model import Header, Lineage, Record
from headwater.model.header_codec import Unreadable, decode

JOB_NAME = "job_name"
JOB_VERSION = "job_version"
BATCH_VERSION = "batch_version"
PARENT_LINEAGE = "parent_lineage"
LINEAGE = "lineage"

STAMP_HEADERS = (JOB_NAME, JOB_VERSION, BATCH_VERSION)
# A record's own come first; those of its parent are not handed on under these names.
OWN_HEADERS = (*STAMP_HEADERS, PARENT_LINEAGE, LINEAGE)


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


@dataclass(frozen=True, slots=True)
class Origin:
    """All that a record's headers say of it. Missing or unreadable parts are None."""

    job_name: str | None
    job_version: str | None
    batch_version: int | None
    lineage: Lineage | None
    unreadable: Unreadable | None = None

    @property
    def record_id(self) -> str | None:
        if self.lineage is None or self.job_name is None:
            return None
        return self.lineage.identity(self.job_name)


def origin_of(record: Record) -> Origin:
    """Read a record's headers; never raises, whatever the bytes are.

    A header that occurs twice counts as its first: a job's own come before those of others.
    """
    values: dict[str, bytes | None] = {}
    for name, value in record.headers:
        values.setdefault(name, value)
    lineage = decode(values[LINEAGE]) if LINEAGE in values else None
    return Origin(
        _text(values.get(JOB_NAME)),
        _text(values.get(JOB_VERSION)),
        _number(values.get(BATCH_VERSION)),
        lineage if isinstance(lineage, Lineage) else None,
        lineage if isinstance(lineage, Unreadable) else None,
    )


def parent_lineage_text(stamp: Sequence[tuple[str, str]]) -> str:
    """The text form of the parent's stamp, for people; `lineage` is the one for programs."""
    return json.dumps([f"{{{name}, {value}}}" for name, value in stamp], separators=(",", ":"))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _number(value: bytes | None) -> int | None:
    # Longer numbers are no batch ids, and int() takes digits of other scripts.
    if value is None or not value.isdigit() or len(value) > 19:
        return None
    return int(value)
