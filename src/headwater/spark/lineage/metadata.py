"""What people say of a job beyond what Spark knows: owner, purpose, code, systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from headwater.errors import InputError
from headwater.openlineage import facets as make
from headwater.spark.lineage.code import commit_of, main_script, told_path
from headwater.spark.lineage.session import current_application

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
        InputError: an unknown type of job, or a name that can't be one of a facet.
    """
    if job_type not in ("batch", "streaming"):
        raise InputError(f"unknown type of job: {job_type!r}", hint="known: batch, streaming")
    for name in facets or {}:
        make.check_name(name)
    application = current_application(spark)
    if application is None:
        return
    run, lineage = application.run, application.settings.lineage
    team, project = team or lineage.team, project or lineage.project
    said = {
        "team": team,
        "project": project,
        "environment": lineage.environment,
        "source_system": source_system,
        "target_system": target_system,
    }
    run.add_job_facet("tags", make.tags("Job", {key: word for key, word in said.items() if word}))
    if team:
        run.add_job_facet("ownership", make.ownership([f"team:{team}"]))
    run.add_job_facet(
        "documentation", make.documentation(description or _description(application.name, said))
    )
    script = Path(location) if location else main_script()
    if script is not None:
        path = told_path(script) if script.exists() else str(location)
        version = version or commit_of(script) or application.settings.jobs.version
        run.add_job_facet("sourceCodeLocation", make.source_code_location(path, path, version))
    for name, fields in (facets or {}).items():
        run.add_job_facet(name, make.custom(fields, "job"))
    if job_type == "batch":
        application.lineage.start()


def _description(name: str, said: Mapping[str, str | None]) -> str:
    source, target = said["source_system"], said["target_system"]
    way = f", from {source} to {target}" if source and target else ""
    return f"{name}{way}"
