"""Runs, in the JSON of Marquez's API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.identity import unversioned_id
from headwater.catalog.ingest.checks import parse_time
from headwater.catalog.store.derived import COUNTS
from headwater.catalog.store.limits import MAX_LINKS, response_bytes, truncated, within_limit
from headwater.catalog.store.queries import count, fetch
from headwater.catalog.store.symlinks import Granted, hide_canonical
from headwater.catalog.store.values import Json, Row, facet, facets_json, short_time, to_rfc3339

# The columns that every run has in a response; a graph shows thousands of runs.
_SHOWN = (
    "id, job_id, seen_at, last_event_at, started_at, running_at, ended_at, end_state, version, "
    "nominal_start, nominal_end, job_at, job_told"
)
_NAMES = "job_namespace, job_name"
_TEXTS = ("args", "location")

_COLUMNS = f"""
SELECT {", ".join(f"r.{name.strip()}" for name in _SHOWN.split(","))}, r.args, r.location, r.facets,
    j.namespace AS job_namespace, j.name AS job_name"""
_FROM = " FROM runs r JOIN jobs j ON j.id = r.job_id "
_NEWEST = "seen_at DESC, id DESC"

_ANY_NAME = """(
        SELECT d.id
        UNION ALL
        SELECT a.id FROM datasets a WHERE a.canonical_id = d.id AND a.canonical_id <> a.id
    ) AS names(id)"""

# An output is the version that the run wrote. An input is the latest version at that time that was
# written or described, under any name of the dataset, and not by the run itself. If there is none,
# it is the version that the run has seen, or the latest one that any reader has seen. By index.
VERSION_READ = f"""
LEFT JOIN LATERAL (
    SELECT latest.id FROM {_ANY_NAME}
    CROSS JOIN LATERAL (
        SELECT v.id, v.created_at FROM dataset_versions v LEFT JOIN runs r ON r.id = v.run_id
        WHERE v.dataset_id = names.id AND v.created_at <= rd.at AND NOT v.read
            AND (rd.output OR v.run_id IS DISTINCT FROM rd.run_id) AND {COUNTS}
        ORDER BY v.created_at DESC, v.id DESC LIMIT 1
    ) AS latest
    WHERE NOT rd.output OR rd.version_id IS NULL
    ORDER BY latest.created_at DESC, latest.id DESC LIMIT 1
) written ON true
LEFT JOIN LATERAL (
    SELECT v.id FROM {_ANY_NAME} JOIN dataset_versions v ON v.dataset_id = names.id
    WHERE written.id IS NULL AND rd.version_id IS NULL AND v.created_at <= rd.at AND v.read
    ORDER BY v.created_at DESC, v.id DESC LIMIT 1
) seen ON true
"""
VERSION = "coalesce(CASE WHEN rd.output THEN rd.version_id END, written.id, rd.version_id, seen.id)"

_DATASETS = f"""
SELECT rd.dataset_id AS id, rd.run_id, rd.output, rd.facets, d.id AS dataset_id, d.namespace,
    d.name, named.namespace AS named_namespace, named.name AS named_name, {VERSION} AS version,
    sum(octet_length(d.namespace) + octet_length(d.name))
        OVER (ORDER BY rd.number, rd.output, rd.dataset_id) AS name_bytes
FROM (
    SELECT wanted.number, listed.*
    FROM unnest(%(runs)s::uuid[]) WITH ORDINALITY AS wanted(run, number)
    CROSS JOIN LATERAL (
        SELECT * FROM run_datasets WHERE run_id = wanted.run LIMIT %(per_run)s
    ) listed
    LIMIT %(links)s
) rd
JOIN datasets named ON named.id = rd.dataset_id
JOIN datasets d ON d.id = named.canonical_id
{VERSION_READ}
"""
_LIMITED_DATASETS = within_limit(
    f"SELECT * FROM ({_DATASETS}) AS named WHERE name_bytes <= %(facet_bytes)s",
    "id, run_id, output, dataset_id, namespace, name, named_namespace, named_name, version",
    facets=["facets"],
    order="run_id, output, namespace, name",
)
# Fewer are never cut: names have at most 2048 characters.
_MIN_COUNTED = 200
_COUNTS = "SELECT run_id, count(*) AS n FROM run_datasets WHERE run_id = ANY(%s) GROUP BY run_id"
# Inputs and outputs of a run of which at least as many are shown, if there are many runs.
_MIN_PER_RUN = 1000

_NOMINAL = (("nominal_start_time", "nominalStartTime"), ("nominal_end_time", "nominalEndTime"))
_MILLISECOND = timedelta(milliseconds=1)


def _limited(statement: str, *, job_facets: bool) -> str:
    columns = ["facets", "job_facets"] if job_facets else ["facets"]
    return within_limit(
        statement, f"{_SHOWN}, {_NAMES}", facets=columns, texts=_TEXTS, order=_NEWEST
    )


_BY_ID = _limited(f"{_COLUMNS}, r.job_facets {_FROM} WHERE r.id = ANY(%(ids)s)", job_facets=True)


async def rows_by_id(connection: AsyncConnection[Any], ids: Sequence[UUID]) -> list[Row]:
    """Rows of runs, newest first."""
    return await _fetch(connection, _BY_ID, {"ids": list(ids)})


async def _fetch(connection: AsyncConnection[Any], statement: str, values: Json) -> list[Row]:
    limit = {"facet_bytes": response_bytes(connection)}
    return await fetch(connection, statement, {**values, **limit})


async def of_other_namespaces(
    connection: AsyncConnection[Any], ids: Collection[UUID], granted: Collection[str]
) -> dict[UUID, bool]:
    """The runs of jobs of other namespaces, and whether their own events name the job."""
    cursor = await connection.execute(
        "SELECT r.id, r.job_told FROM runs r JOIN jobs j ON j.id = r.job_id "
        "WHERE r.id = ANY(%s) AND j.namespace <> ALL(%s)",
        (list(ids), list(granted)),
    )
    return dict(await cursor.fetchall())


async def latest_of_jobs(
    connection: AsyncConnection[Any],
    jobs: Sequence[UUID],
    per_job: int,
    *,
    job_facets: bool = False,
    at: datetime | None = None,
) -> dict[UUID, list[Row]]:
    """The latest runs of every job, newest first.

    Args:
        job_facets: also select the job facets of the runs.
        at: only runs that existed at this time.
    """
    also = ", r.job_facets" if job_facets else ""
    statement = _limited(
        f"{_COLUMNS}{also} FROM unnest(%(jobs)s::uuid[]) AS wanted(id) "
        "JOIN jobs j ON j.id = wanted.id "
        "CROSS JOIN LATERAL (SELECT * FROM runs WHERE job_id = wanted.id AND seen_at <= %(at)s "
        f"ORDER BY {_NEWEST} LIMIT %(per_job)s) r",
        job_facets=job_facets,
    )
    values = {"jobs": list(jobs), "at": at or "infinity", "per_job": per_job}
    groups: dict[UUID, list[Row]] = defaultdict(list)
    for row in await _fetch(connection, statement, values):
        groups[row["job_id"]].append(row)
    return groups


async def page(
    connection: AsyncConnection[Any],
    job: UUID | None,
    states: Sequence[str],
    limit: int,
    offset: int,
) -> tuple[list[Row], int]:
    """Runs of a job or of all jobs, newest first, and their total count."""
    only = ["r.job_id = %(job)s"] if job is not None else []
    if states:
        only.append(_in_states(set(states)))
    where = f"WHERE {' AND '.join(only)}" if only else ""
    values = {"job": job, "limit": limit, "offset": offset}
    order = " ORDER BY r.seen_at DESC, r.id DESC LIMIT %(limit)s OFFSET %(offset)s"
    statement = _limited(_COLUMNS + _FROM + where + order, job_facets=False)
    rows = await _fetch(connection, statement, values)
    if len(rows) < limit and (rows or not offset):
        # The last page: the count follows from it.
        return rows, offset + len(rows)
    return rows, await count(connection, f"runs r {where}", values)


_ENDS = ("COMPLETED", "FAILED", "ABORTED")
_STARTED = "coalesce(r.started_at, r.running_at) IS NOT NULL"


def _in_states(states: Collection[str]) -> str:
    """A condition that the indexes support. Unknown states are ignored, so it is safe in SQL."""
    conditions = [f"r.end_state = '{state}'" for state in _ENDS if state in states]
    if "RUNNING" in states:
        conditions.append(f"(r.end_state IS NULL AND {_STARTED})")
    if "NEW" in states:
        conditions.append(f"(r.end_state IS NULL AND NOT ({_STARTED}))")
    return f"({' OR '.join(conditions)})"


STATE = """(CASE WHEN r.end_state IS NOT NULL THEN r.end_state
    WHEN coalesce(r.started_at, r.running_at) IS NOT NULL THEN 'RUNNING' ELSE 'NEW' END)"""


@dataclass(frozen=True, slots=True)
class RunDatasets:
    """Inputs and outputs by run, and the runs of which not all are included."""

    by_run: dict[UUID, list[Row]]
    cut: Collection[UUID] = frozenset()

    def of(self, run: UUID) -> list[Row]:
        return self.by_run.get(run, [])


async def datasets_of(
    connection: AsyncConnection[Any], runs: Sequence[UUID], granted: Granted = None
) -> RunDatasets:
    """The inputs and outputs of each run, as many as fit into a response."""
    per_run = max(MAX_LINKS // max(len(runs), 1), _MIN_PER_RUN)
    values = {"runs": list(runs), "per_run": per_run, "links": MAX_LINKS}
    by_run: dict[UUID, list[Row]] = defaultdict(list)
    rows = await _fetch(connection, _LIMITED_DATASETS, values)
    for row in rows:
        hide_canonical(row, granted)
        by_run[row["run_id"]].append(row)
    cut = {row["run_id"] for row in rows if row["cut"]}
    if len(rows) >= _MIN_COUNTED:
        counts = await fetch(connection, _COUNTS, (list(runs),))
        cut |= {each["run_id"] for each in counts if each["n"] > len(by_run[each["run_id"]])}
    return RunDatasets(by_run, cut)


async def shaped(
    connection: AsyncConnection[Any], rows: Sequence[Row], granted: Granted = None
) -> dict[UUID, Json]:
    """Rows as JSON, by id."""
    datasets = await datasets_of(connection, [row["id"] for row in rows], granted)
    return {row["id"]: run_json(row, datasets) for row in rows}


def run_json(row: Row, run_datasets: RunDatasets) -> Json:
    """A run as JSON."""
    datasets = run_datasets.of(row["id"])
    started = row["started_at"] or row["running_at"]
    ended = row["ended_at"]
    version = row["version"]
    nominal = _nominal_times(row)
    return {
        "id": str(row["id"]),
        "createdAt": to_rfc3339(row["seen_at"]),
        "updatedAt": to_rfc3339(row["last_event_at"] or row["seen_at"]),
        "nominalStartTime": to_rfc3339(row["nominal_start"] or nominal.get("nominalStartTime")),
        "nominalEndTime": to_rfc3339(row["nominal_end"] or nominal.get("nominalEndTime")),
        "state": run_state(row),
        "startedAt": to_rfc3339(started),
        "endedAt": to_rfc3339(ended),
        "durationMs": duration_ms(started, ended),
        "args": _arguments(row, nominal),
        "jobVersion": version
        and {
            "namespace": row["job_namespace"],
            "name": row["job_name"],
            "version": str(version),
        },
        "inputDatasetVersions": [_version(d) for d in datasets if not d["output"]],
        "outputDatasetVersions": [_version(d) for d in datasets if d["output"]],
        "facets": facets_json(row["facets"]),
        **truncated(row["cut"], row["id"] in run_datasets.cut),
    }


def duration_ms(started: datetime | None, ended: datetime | None) -> int | None:
    return (ended - started) // _MILLISECOND if started and ended else None


def run_state(row: Row) -> str:
    """An end state is final: a late event does not reopen a run."""
    if row["end_state"]:
        return str(row["end_state"])
    return "RUNNING" if row["started_at"] or row["running_at"] else "NEW"


def _version(row: Row) -> Json:
    version = row["version"] or unversioned_id(row["dataset_id"])
    return {
        "datasetVersionId": {
            "namespace": row["namespace"],
            "name": row["name"],
            "version": str(version),
        },
        "facets": facets_json(row["facets"]),
    }


def _nominal_times(row: Row) -> dict[str, datetime]:
    """The valid times of the facet `nominalTime`."""
    nominal = facet(row["facets"], "nominalTime")
    times: dict[str, datetime] = {}
    for _, key in _NOMINAL:
        try:
            times[key] = parse_time(nominal[key])
        except (KeyError, ValueError):
            continue
    return times


def _arguments(row: Row, nominal: dict[str, datetime]) -> Json:
    args: Json = orjson.loads(row["args"]) if row["args"] else {}
    args |= {name: short_time(nominal[key]) for name, key in _NOMINAL if key in nominal}
    parent = facet(row["facets"], "parent") or facet(row["facets"], "parentRun")
    job, run = parent.get("job"), parent.get("run")
    if isinstance(job, dict) and isinstance(run, dict):
        args |= {
            "run_id": run.get("runId"),
            "name": job.get("name"),
            "namespace": job.get("namespace"),
        }
    return args
