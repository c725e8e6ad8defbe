"""Rows that are built from events.

Every `add` is a minimum, a maximum or the latest value, so the result does not depend on the order
of events, and adding an event twice changes nothing. The store merges the rows into its tables by
the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from headwater.catalog.ingest.json_text import json_text

# Facet name -> (event time in microseconds since 1970, text). The latest value is kept; at the same
# time the greater text, so that the result does not depend on the order of arrival.
FacetMap = dict[str, tuple[int, str]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Of several ends of a run the last one in this list is kept, then the latest.
END_STATES = ("COMPLETED", "ABORTED", "FAILED")


def microseconds(at: datetime) -> int:
    """Microseconds since 1970 as an integer; a float would round."""
    span = at - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def facet_map(facets: dict[str, Any], at: datetime) -> FacetMap:
    """The facets of one event."""
    time = microseconds(at)
    return {name: (time, json_text(body)) for name, body in facets.items()}


def merge_into(known: FacetMap, new: FacetMap) -> None:
    """Merge facets; commutative and idempotent."""
    for name, value in new.items():
        if name not in known or known[name] < value:
            known[name] = value


@dataclass(slots=True)
class Span:
    """The first and the last event time."""

    first: datetime
    last: datetime

    def add(self, at: datetime) -> None:
        self.first, self.last = min(self.first, at), max(self.last, at)


@dataclass(slots=True)
class SourceRow:
    name: str
    seen: Span
    url: str
    url_at: datetime


@dataclass(slots=True)
class DatasetRow:
    namespace: str
    name: str
    seen: Span
    source: str | None = None
    source_at: datetime | None = None
    facets: FacetMap = field(default_factory=dict)

    def add_source(self, name: str, at: datetime) -> None:
        if self.source is None or (self.source_at, self.source) < (at, name):
            self.source, self.source_at = name, at


@dataclass(slots=True)
class VersionRow:
    """A version of a dataset: written by a run, or observed without a run."""

    dataset_id: UUID
    run_id: UUID | None
    seen: Span
    fields: UUID | None
    lifecycle: str
    # The last event that reports a write; None if the run has written nothing to it so far.
    written_at: datetime | None = None
    # Whether only readers have seen it.
    read: bool = False
    facets: FacetMap = field(default_factory=dict)

    def add_write(self, at: datetime) -> None:
        self.written_at = max(self.written_at or at, at)


@dataclass(slots=True)
class JobRow:
    namespace: str
    name: str
    seen: Span
    parent_id: UUID | None = None
    parent_at: datetime | None = None
    # `facets` are from all events, `own_facets` from job events only. Job facets of run events are
    # also stored with the run.
    facets: FacetMap = field(default_factory=dict)
    own_facets: FacetMap = field(default_factory=dict)

    def add_parent(self, parent: UUID, at: datetime) -> None:
        if self.parent_at is None or (self.parent_at, self.parent_id) < (at, parent):
            self.parent_id, self.parent_at = parent, at


@dataclass(slots=True)
class RunRow:
    job_id: UUID
    # `job_confirmed` is True if an event of the run itself names the job. A run belongs to the job
    # of its first event; until there is one, to the job that the parent facet of a child names.
    job_at: datetime
    job_confirmed: bool
    seen_at: datetime
    # None if only parent facets mention the run.
    last_event_at: datetime | None = None
    started_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    end_state: str | None = None
    completed: bool = False
    streaming: bool = False
    parent_run_id: UUID | None = None
    facets: FacetMap = field(default_factory=dict)
    job_facets: FacetMap = field(default_factory=dict)

    def add_job(self, job: UUID, at: datetime, *, confirmed: bool) -> None:
        if (not confirmed, at, job) < (not self.job_confirmed, self.job_at, self.job_id):
            self.job_id, self.job_at, self.job_confirmed = job, at, confirmed

    def add_state(self, event_type: str | None, at: datetime) -> None:
        """Without a type, the event describes the run and does not change its state."""
        self.last_event_at = max(self.last_event_at or at, at)
        if event_type == "START":
            self.started_at = min(self.started_at or at, at)
        elif event_type in ("RUNNING", "OTHER"):
            self.add_running(at)
        elif event_type is not None:
            state = {"COMPLETE": "COMPLETED", "ABORT": "ABORTED", "FAIL": "FAILED"}[event_type]
            self.completed |= state == "COMPLETED"
            # A failure outweighs a success, whichever event is later.
            if self.ended_at is None or self._end < (END_STATES.index(state), at):
                self.ended_at, self.end_state = at, state

    def add_running(self, at: datetime) -> None:
        self.running_at = min(self.running_at or at, at)

    @property
    def _end(self) -> tuple[int, datetime | None]:
        return END_STATES.index(self.end_state or END_STATES[0]), self.ended_at


@dataclass(slots=True)
class RunDatasetRow:
    """A dataset that a run read or wrote, and its version if an event names it."""

    at: datetime
    version_id: UUID | None = None
    version_at: datetime | None = None
    # Whether an event of the run describes the dataset: not if its key has no access to it.
    described: bool = True
    facets: FacetMap = field(default_factory=dict)

    def add_version(self, version: UUID, at: datetime) -> None:
        if self.version_at is None or (self.version_at, self.version_id) < (at, version):
            self.version_id, self.version_at = version, at


@dataclass(slots=True)
class RangeRow:
    """Records that a batch read or wrote; the first offset is part of the key."""

    topic: str
    last: int
    job_version: str | None
    at: datetime

    def add(self, last: int, job_version: str | None, at: datetime) -> None:
        self.last, self.at = max(self.last, last), min(self.at, at)
        if job_version is not None:
            self.job_version = max(self.job_version or job_version, job_version)


@dataclass(frozen=True, slots=True)
class ColumnEdge:
    """A column of an output that is derived from a column of an input."""

    field: str
    input_id: UUID
    input_field: str
    transformations: str
    description: str | None
    type: str | None
