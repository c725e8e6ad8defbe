"""The section of what jobs tell the lineage service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from headwater.settings.sections import Section


class LineageSettings(Section):
    """What jobs tell the catalog: runs, datasets and columns, as OpenLineage events."""

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
        description="Names of jobs that emit none, as a JSON list; `*` and `?` stand for any text "
        "and any character.",
    )
    namespace: str = Field(
        "neuronews", min_length=1, description="Namespace of jobs and their runs."
    )
    parent_job: str | None = Field(
        None, description="Job that started these jobs, such as a scheduler's, by its name."
    )
    parent_run_id: str | None = Field(
        None, description="The run of that job, a UUID. Without it one is derived from its name."
    )
    parent_namespace: str | None = Field(
        None, description="The namespace of that job. Default: that of these jobs."
    )
    environment: str = Field("development", description="Where jobs run, as told to the catalog.")
    team: str | None = Field(None, description="Who owns the jobs.")
    project: str | None = Field(None, description="What the jobs belong to.")
    run_facets: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Facets to put on every run, by name, as JSON."
    )
    job_facets: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Facets to put on every job, by name, as JSON."
    )
    interval_seconds: float = Field(
        60.0, gt=0, description="How often a streaming query tells how far it has come."
    )
    analysis_seconds: float = Field(
        2.0,
        ge=0,
        description="How long a start may look at the query's plan for its columns; then the "
        "events have no column lineage.",
    )
    emit_seconds: float = Field(
        1.0, gt=0, description="How long handing an event to the spool may hold up a job."
    )
    close_seconds: float = Field(
        5.0, ge=0, description="How long a job that ends waits for its events to be delivered."
    )
    connect_seconds: float = Field(
        5.0, gt=0, description="How long connecting to the catalog may take."
    )
    request_seconds: float = Field(
        30.0, gt=0, description="How long one request to the catalog may take in all."
    )
    max_backoff_seconds: float = Field(
        60.0, gt=0, description="Longest pause between two tries while the catalog is away."
    )
    max_attempts: int = Field(
        10,
        ge=1,
        description="How often an event is tried that the catalog answers with 500 while it takes "
        "those of other runs, before it is set aside.",
    )
    spool: Path | None = Field(
        None, description="Folder where events wait. Default: `spool` in `home`."
    )
    spool_mb: float = Field(
        64.0, gt=0, description="Most that may wait there, of all jobs together, in MiB."
    )
    overflow_policy: Literal["drop-oldest", "drop-new"] = Field(
        "drop-oldest", description="What gives way when the spool or its disk is full."
    )
