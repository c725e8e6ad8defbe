"""The section of the OpenLineage events of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from headwater.settings.paths import LocalPath
from headwater.settings.sections import Section


class LineageSettings(Section):
    """OpenLineage events of jobs: runs, datasets and columns."""

    renamed: ClassVar[Mapping[str, str]] = {
        "off_for": "disabled_jobs",
        "most_backoff_seconds": "max_backoff_seconds",
        "most_tries": "max_attempts",
        "when_full": "overflow_policy",
    }

    enabled: bool = Field(
        True, description="Whether jobs emit events. Row lineage in headers does not depend on it."
    )
    disabled_jobs: list[str] = Field(
        [],
        description="Names of jobs that do not emit events, as a JSON list; `*` and `?` match any "
        "text and any character.",
    )
    namespace: str = Field("default", min_length=1, description="Namespace of jobs and runs.")
    parent_job: str | None = Field(
        None, description="Name of the job that started these jobs, such as a scheduler's."
    )
    parent_run_id: str | None = Field(
        None, description="Run id of the parent job, a UUID. Default: derived from its name."
    )
    parent_namespace: str | None = Field(
        None, description="Namespace of the parent job. Default: `lineage.namespace`."
    )
    environment: str = Field(
        "development", description="Environment of the jobs, as reported in events."
    )
    team: str | None = Field(None, description="Team that owns the jobs.")
    project: str | None = Field(None, description="Project of the jobs.")
    run_facets: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Facets of every run, by name, as JSON."
    )
    job_facets: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Facets of every job, by name, as JSON."
    )
    interval_seconds: float = Field(
        60.0, gt=0, description="Interval between RUNNING events of a streaming query."
    )
    analysis_seconds: float = Field(
        2.0,
        ge=0,
        description="Timeout for the analysis of a query plan when it starts. After it, events "
        "have no column lineage.",
    )
    emit_seconds: float = Field(
        1.0, gt=0, description="How long writing an event to the spool may block a job."
    )
    close_seconds: float = Field(
        5.0, ge=0, description="How long a job that ends waits for the delivery of its events."
    )
    connect_seconds: float = Field(
        5.0, gt=0, description="Timeout for a connection to the catalog."
    )
    request_seconds: float = Field(
        30.0, gt=0, description="Total timeout of one request to the catalog."
    )
    max_backoff_seconds: float = Field(
        60.0, gt=0, description="Maximum delay between attempts while the catalog is unavailable."
    )
    max_attempts: int = Field(
        10,
        ge=1,
        description="Attempts to send an event to which the catalog responds with 500 while it "
        "accepts events of other runs. After them, it is moved to the refused events.",
    )
    spool: LocalPath | None = Field(
        None,
        description="Directory of events that are not delivered yet. Default: `spool` in `home`.",
    )
    spool_mb: float = Field(
        64.0, gt=0, description="Maximum size of the spool, for all jobs together, in MiB."
    )
    overflow_policy: Literal["drop-oldest", "drop-new"] = Field(
        "drop-oldest", description="Which events are dropped when the spool or its disk is full."
    )
