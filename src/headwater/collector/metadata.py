"""What people say of a job beyond what Spark knows: owner, purpose, code, systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from headwater.collector.session import current_application
from headwater.collector.source_code import commit_of, main_script, told_path
from headwater.errors import InputError
from headwater.openlineage import facets as make
from headwater.openlineage.facets import Facet
from headwater.openlineage.job_facets import describe_job, described
from headwater.settings import Settings

JobType = Literal["batch", "streaming"]


def add_lineage_metadata(
    spark: SparkSession,
    *,
    job_type: JobType = "batch",
    source_system: str | None = None,
    target_system: str | None = None,
    team: str | None = None,
    project: str | None = None,
    description: str | None = None,
    location: str | Path | None = None,
    version: str | None = None,
    facets: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Put this on the job and on the events of its run; a batch run begins with it.

    What is not given comes from the settings (`lineage.team`, `lineage.project`,
    `lineage.environment`) and from the program: the file that it was started with, and the commit
    of its working tree. Without lineage in the session nothing happens.

    Args:
        facets: further facets of the job, by name.

    Raises:
        InputError: an unknown type of job, or a facet with a name or content that can't be one.
    """
    if job_type not in ("batch", "streaming"):
        raise InputError(f"unknown type of job: {job_type!r}", hint="known: batch, streaming")
    for name in facets or {}:
        make.check_name(name)
    own = {name: make.custom(fields, "job") for name, fields in (facets or {}).items()}
    application = current_application(spark)
    if application is None:
        return
    given = job_facets(
        application.settings,
        application.name,
        source_system=source_system,
        target_system=target_system,
        team=team,
        project=project,
        description=description,
        location=location,
        version=version,
    )
    given |= own
    if job_type == "streaming":
        # The runs of the application's queries carry it; its writes are theirs.
        describe_job(application.name, given)
        application.is_streaming()
    for name, facet in given.items():
        application.run.add_job_facet(name, facet)
    if job_type == "batch":
        application.lineage.start()


def describe_shipped_job(
    settings: Settings,
    job_name: str,
    *,
    source_system: str,
    target_system: str,
    description: str,
    location: Path,
) -> None:
    """What a shipped job says of itself; what the user has said of it wins."""
    facets = job_facets(
        settings,
        job_name,
        source_system=source_system,
        target_system=target_system,
        description=description,
        location=location,
    )
    describe_job(job_name, {**facets, **described(job_name)})


def job_facets(
    settings: Settings,
    job_name: str,
    *,
    source_system: str | None = None,
    target_system: str | None = None,
    team: str | None = None,
    project: str | None = None,
    description: str | None = None,
    location: str | Path | None = None,
    version: str | None = None,
) -> dict[str, Facet]:
    """Facets that say this of a job."""
    lineage = settings.lineage
    team, project = team or lineage.team, project or lineage.project
    way = f", from {source_system} to {target_system}" if source_system and target_system else ""
    said = {
        "team": team,
        "project": project,
        "environment": lineage.environment,
        "source_system": source_system,
        "target_system": target_system,
    }
    facets = {
        "tags": make.tags("Job", {key: word for key, word in said.items() if word}),
        "documentation": make.documentation(description or f"{job_name}{way}"),
    }
    if team:
        facets["ownership"] = make.ownership([f"team:{team}"])
    script = Path(location) if location else main_script()
    if script is not None:
        path = told_path(script) if script.exists() else str(location)
        version = version or commit_of(script) or settings.jobs.version
        facets["sourceCodeLocation"] = make.source_code_location(path, path, version)
    return facets
