"""The checks of row lineage for `headwater doctor`: the jar, and the jobs in the catalog and in the
topic of runs."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import BrokerUnavailableError, CheckFailedError, HeadwaterError
from headwater.jvm.installed import find_java
from headwater.jvm.jars import own_jar_path
from headwater.kafka import last_runs
from headwater.model.run_record import RunCoverage
from headwater.service.catalog_client import get_json
from headwater.settings import Settings

EXTENSION = "dev.headwater.RowLineageExtension"
# The jobs that changed last; of those without exact lineage, the first are listed.
_MAX_JOBS = 200
_MAX_LISTED = 10
_MAX_TEXT = 200
# The version in a class file is that of Java plus this number.
_CLASS_VERSION = 44


def check_extension_jar(settings: Settings) -> str:
    """Check that Headwater's jar has the extension, and that Java can load it.

    Raises:
        CheckFailedError: it has not, or can't.
    """
    jar = own_jar_path(settings)
    if not jar.is_file():
        # In an editable install; the check of Java reports what is missing to compile it.
        return "Headwater's jar is compiled when a session first needs it"
    hint = "install the wheel again: pip install --force-reinstall --no-deps headwater"
    try:
        with zipfile.ZipFile(jar) as archive:
            content = archive.read(EXTENSION.replace(".", "/") + ".class")
    except (KeyError, OSError, zipfile.BadZipFile) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CheckFailedError(f"{jar} has no {EXTENSION}: {reason}", hint=hint) from None
    needed = int.from_bytes(content[6:8], "big") - _CLASS_VERSION
    java = find_java(settings)
    if java.major < needed:
        raise CheckFailedError(
            f"{jar.name} needs Java {needed} and can't be loaded by Java {java.major}",
            hint=f"set JAVA_HOME to Java {needed} or newer",
        )
    return f"{EXTENSION} is in {jar}"


def describe_jobs(settings: Settings) -> str | None:
    """How many jobs report row lineage, and which of them are not exact; None without a catalog."""
    try:
        jobs = get_json(settings, f"/api/v1/jobs?limit={_MAX_JOBS}", timeout_seconds=5)["jobs"]
    except (HeadwaterError, KeyError, TypeError):
        # The check of the catalog reports it.
        return None
    reports = [(job, facet) for job in jobs if (facet := _facet(job))]
    if not reports:
        return "no job in the catalog reports it"
    kinds = Counter(str(facet["coverage"]) for _, facet in reports)
    listed = [_line(job, facet) for job, facet in reports if facet["coverage"] != "exact"]
    return _summary("jobs by coverage", kinds, listed)


def describe_runs(settings: Settings) -> str | None:
    """The row lineage of the last run of each job in the topic of runs; None if it has none."""
    topic = settings.kafka.runs_topic
    try:
        runs = last_runs(settings.kafka)
    except BrokerUnavailableError:
        # The check of the services reports it.
        return None
    except HeadwaterError as error:
        return _shown(f"{topic} can't be read: {error.message}")
    known = [(run.job_name, run.coverage) for run in runs if run.coverage is not None]
    if not known:
        return None
    kinds = Counter(coverage.kind for _, coverage in known)
    listed = [_status(*each) for each in sorted(known, key=lambda run: run[1].kind == "exact")]
    return _summary(f"last runs in topic {topic}", kinds, listed)


def _summary(title: str, kinds: Mapping[str, int], listed: Sequence[str]) -> str:
    counts = ", ".join(f"{count} {_shown(kind)}" for kind, count in sorted(kinds.items()))
    more = len(listed) - _MAX_LISTED
    shown = [*listed[:_MAX_LISTED], *([f"{more} more"] if more > 0 else [])]
    return "; ".join([f"{title}: {counts}", *shown])


def _status(job_name: str, coverage: RunCoverage) -> str:
    why = coverage.reason or ", ".join(coverage.steps)
    return _shown(f"{job_name} is {coverage.kind}{f' ({why})' if why else ''}")


def _facet(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    run = job.get("latestRun") or {}
    facet = (run.get("facets") or {}).get("headwater_rowLineage")
    return facet if isinstance(facet, dict) and "coverage" in facet else None


def _line(job: Mapping[str, Any], facet: Mapping[str, Any]) -> str:
    steps = facet.get("steps")
    texts = tuple(map(str, steps if isinstance(steps, list) else ()))
    return _status(str(job.get("name")), RunCoverage(facet["coverage"], texts, facet.get("reason")))


def _shown(text: str) -> str:
    """Names come from producers: without control characters, and cut."""
    return "".join(each if each.isprintable() else "?" for each in text[:_MAX_TEXT])
