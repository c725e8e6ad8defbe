"""Metadata of a job that Spark does not know: owner, description, source code, systems."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from headwater.collector.session import current_application
from headwater.errors import InputError
from headwater.openlineage import facets as make
from headwater.openlineage.facets import Facet, register_job_facets, registered_job_facets
from headwater.settings import Settings
from headwater.spark.session import refuse_connect

JobType = Literal["batch", "streaming"]

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


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
    """Add metadata to the job and to the events of its run; starts a batch run.

    Defaults come from the settings (`lineage.team`, `lineage.project`, `lineage.environment`) and
    from the program: its main script, and the git commit of the script's working tree. Does nothing
    in a session without lineage.

    Args:
        facets: additional facets of the job, by name.

    Raises:
        InputError: the job type is unknown, a facet has an invalid name or content, or it is a
            session of Spark Connect.
    """
    refuse_connect(spark)
    if job_type not in ("batch", "streaming"):
        raise InputError(f"unknown job type: {job_type!r}", hint="use batch or streaming")
    for name in facets or {}:
        make.check_name(name)
    own = {name: make.custom(fields, "job") for name, fields in (facets or {}).items()}
    application = current_application(spark)
    if application is None:
        return
    added = job_facets(
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
    added |= own
    if job_type == "streaming":
        # The runs of the application's queries carry the facets: the queries do the writes.
        register_job_facets(application.name, added)
        application.is_streaming()
    for name, facet in added.items():
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
    """Register the metadata of a shipped job; metadata of the user wins."""
    facets = job_facets(
        settings,
        job_name,
        source_system=source_system,
        target_system=target_system,
        description=description,
        location=location,
    )
    register_job_facets(job_name, {**facets, **registered_job_facets(job_name)})


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
    """Job facets with this metadata."""
    lineage = settings.lineage
    team, project = team or lineage.team, project or lineage.project
    systems = (
        f", from {source_system} to {target_system}" if source_system and target_system else ""
    )
    tags = {
        "team": team,
        "project": project,
        "environment": lineage.environment,
        "source_system": source_system,
        "target_system": target_system,
    }
    facets = {
        "tags": make.tags("Job", {key: value for key, value in tags.items() if value}),
        "documentation": make.documentation(description or f"{job_name}{systems}"),
    }
    if team:
        facets["ownership"] = make.ownership([f"team:{team}"])
    script = Path(location) if location else main_script()
    if script is not None:
        path = relative_path(script) if script.exists() else str(location)
        version = version or commit_of(script) or settings.jobs.version
        facets["sourceCodeLocation"] = make.source_code_location(path, path, version)
    return facets


def main_script() -> Path | None:
    """The script that Python was started with."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file) if file else None


def relative_path(script: Path) -> str:
    """Relative to the working directory if below it, so that it is the same on every machine."""
    path = script.absolute()
    folder = Path.cwd()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def commit_of(script: Path) -> str | None:
    """The git commit of the file's working tree; None without one."""
    for folder in script.absolute().parents:
        git = folder / ".git"
        if git.exists():
            try:
                return _head(_git_folder(git))
            except (OSError, ValueError):
                return None
    return None


def _git_folder(git: Path) -> Path:
    # In a linked worktree `.git` is a file with the path of the folder.
    if git.is_file():
        return (git.parent / git.read_text().partition("gitdir:")[2].strip()).resolve()
    return git


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head if _COMMIT.fullmatch(head) else None
    shared = git / "commondir"
    folders = [git, *([(git / shared.read_text().strip()).resolve()] if shared.is_file() else [])]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text().strip()
        packed = folder / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            commit, _, ref = line.partition(" ")
            if ref == name:
                return commit
    return None
