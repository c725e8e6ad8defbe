"""What events say about each thing, added up.

Every `add` takes minima, maxima and later words, so that the sum does not depend on the order of
events, and adding one twice changes nothing. The store merges the sums into its tables with the
same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from headwater.catalog.ingest.facets import FacetMap


@dataclass(slots=True)
class Span:
    """From the first to the last time that something was seen."""

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
    """A version of a dataset: what one run wrote, or what was seen without a run."""

    dataset_id: UUID
    run_id: UUID | None
    seen: Span
    fields: UUID | None
    lifecycle: str
    facets: FacetMap = field(default_factory=dict)


@dataclass(slots=True)
class JobRow:
    namespace: str
    name: str
    seen: Span
    parent_id: UUID | None = None
    parent_at: datetime | None = None
    # All that was ever said, and what job events said: a run's own words stand with the run.
    facets: FacetMap = field(default_factory=dict)
    own_facets: FacetMap = field(default_factory=dict)

    def add_parent(self, parent: UUID, at: datetime) -> None:
        if self.parent_at is None or (self.parent_at, self.parent_id) < (at, parent):
            self.parent_id, self.parent_at = parent, at


@dataclass(slots=True)
class RunRow:
    job_id: UUID
    # When the job was named, and whether by the run itself: a run belongs to the job of its first
    # event, and only before there is one to the job that its children name.
    job_at: datetime
    job_told: bool
    seen_at: datetime
    # None as long as it is only known as somebody's parent.
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

    def add_job(self, job: UUID, at: datetime, *, told: bool) -> None:
        if (not told, at, job) < (not self.job_told, self.job_at, self.job_id):
            self.job_id, self.job_at, self.job_told = job, at, told

    def add_state(self, event_type: str, at: datetime) -> None:
        self.last_event_at = max(self.last_event_at or at, at)
        if event_type == "START":
            self.started_at = min(self.started_at or at, at)
        elif event_type in ("RUNNING", "OTHER"):
            self.running_at = min(self.running_at or at, at)
        else:
            state = {"COMPLETE": "COMPLETED", "ABORT": "ABORTED", "FAIL": "FAILED"}[event_type]
            self.completed |= state == "COMPLETED"
            if self.ended_at is None or (self.ended_at, self.end_state or "") < (at, state):
                self.ended_at, self.end_state = at, state


@dataclass(slots=True)
class RunDatasetRow:
    """That a run read or wrote a dataset, and which version if the event told."""

    at: datetime
    version_id: UUID | None = None
    version_at: datetime | None = None
    facets: FacetMap = field(default_factory=dict)

    def add_version(self, version: UUID, at: datetime) -> None:
        if self.version_at is None or (self.version_at, self.version_id) < (at, version):
            self.version_id, self.version_at = version, at


@dataclass(slots=True)
class RangeRow:
    """Records that a batch read or wrote, from an offset on; the topic is a dataset's name."""

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
    """A column of an output that is made from a column of an input."""

    field: str
    input_id: UUID
    input_field: str
    transformations: str
    description: str | None
    type: str | None
