"""The graph of jobs and datasets: the union of the inputs and outputs of all runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.identity import namespace_id
from headwater.catalog.store import datasets, jobs, runs
from headwater.catalog.store.as_of import datasets_as_of, run_as_of
from headwater.catalog.store.limits import MAX_LINKS, response_bytes, truncated
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row, to_rfc3339
from headwater.model import CHECKS_NAMESPACE

_WALK = """
SELECT job, truncated
FROM lineage_walk(%(start)s, %(depth)s, %(limit)s, %(at)s::timestamptz, %(seconds)s)
"""

# In two steps that the planner can't merge: for the order and the limit it would scan the edges of
# all datasets in the order of jobs (310 ms with 22,600 edges instead of 4 ms).
_JOBS_OF_DATASET = """
WITH names AS MATERIALIZED (
    SELECT id FROM datasets WHERE id = %(dataset)s
    UNION SELECT id FROM datasets WHERE canonical_id = %(dataset)s AND canonical_id <> id
), found AS MATERIALIZED (
    SELECT DISTINCT e.job_id FROM names CROSS JOIN LATERAL (
        SELECT job_id FROM edges WHERE dataset_id = names.id AND first_seen <= %(at)s OFFSET 0
    ) e
)
SELECT job_id FROM found JOIN jobs j ON j.id = job_id AND NOT j.hidden ORDER BY 1 LIMIT %(limit)s
"""

_DESCENDANTS = """
WITH RECURSIVE family(id) AS (
    SELECT id FROM jobs WHERE id = %(job)s
    UNION SELECT j.id FROM family f JOIN jobs j ON j.parent_id = f.id
    WHERE NOT j.hidden AND j.created_at <= %(at)s
)
SELECT id FROM family LIMIT %(limit)s
"""

_EDGES = """
SELECT DISTINCT e.job_id, e.output, d.canonical_id AS dataset_id
FROM edges e JOIN datasets d ON d.id = e.dataset_id
WHERE e.job_id = ANY(%(jobs)s) AND e.first_seen <= %(at)s
LIMIT %(edges)s
"""

# Without the job that `headwater doctor` uses for its checks: it is only shown for its namespace.
_ALL_JOBS = """
SELECT id FROM jobs
WHERE NOT hidden AND namespace <> %(checks)s AND created_at <= %(at)s
ORDER BY updated_at DESC, id LIMIT %(limit)s
"""

# The jobs of the namespace, and other jobs that read or write its datasets.
_JOBS_OF_NAMESPACE = """
SELECT j.id FROM jobs j
WHERE NOT j.hidden AND j.created_at <= %(at)s AND j.id IN (
    SELECT id FROM jobs WHERE namespace_id = %(namespace)s
    UNION SELECT e.job_id FROM datasets d
    JOIN datasets named ON named.canonical_id = d.canonical_id
    JOIN edges e ON e.dataset_id = named.id AND e.first_seen <= %(at)s
    WHERE d.namespace_id = %(namespace)s)
ORDER BY j.updated_at DESC, j.id LIMIT %(limit)s
"""

_RUN_EDGES = """
SELECT DISTINCT r.job_id, rd.output, d.canonical_id AS dataset_id
FROM runs r JOIN run_datasets rd ON rd.run_id = r.id JOIN datasets d ON d.id = rd.dataset_id
WHERE r.id = ANY(%(runs)s)
LIMIT %(edges)s
"""

_FAMILY_OF_RUN = """
WITH RECURSIVE family(id) AS (
    SELECT id FROM runs WHERE id = %s
    UNION SELECT r.id FROM family f JOIN runs r ON r.parent_run_id = f.id
)
SELECT id, job_id FROM family JOIN runs USING (id) ORDER BY seen_at, id LIMIT %s
"""


# The JSON of an edge without its names.
_EDGE_BYTES = 160


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """Limits of a graph, and the time that it shows."""

    depth: int
    max_nodes: int
    seconds: float
    at: datetime | None = None

    def values(self) -> Json:
        return {
            "at": self.at or "infinity",
            "limit": self.max_nodes + 1,
            "edges": self.max_edges + 1,
        }

    @property
    def max_edges(self) -> int:
        return max(MAX_LINKS, 4 * self.max_nodes)


async def around_job(connection: AsyncConnection[Any], job: UUID, limits: GraphLimits) -> Json:
    """The graph around a job and its child jobs."""
    family = await connection.execute(_DESCENDANTS, {"job": job, **limits.values()})
    start = {key for (key,) in await family.fetchall()} | {job}
    return await _graph(connection, start, limits)


async def around_dataset(
    connection: AsyncConnection[Any], dataset: UUID, limits: GraphLimits
) -> Json:
    """The graph around a dataset; only the dataset if no job uses it."""
    users = await connection.execute(_JOBS_OF_DATASET, {"dataset": dataset, **limits.values()})
    start = {key for (key,) in await users.fetchall()}
    return await _graph(connection, start, limits, also=dataset)


async def complete(
    connection: AsyncConnection[Any], namespace: str | None, limits: GraphLimits
) -> Json:
    """All jobs with their inputs and outputs; the latest updated ones if there are too many.

    Args:
        namespace: only the jobs of this namespace, and those that use its datasets.
    """
    values = {"checks": CHECKS_NAMESPACE, **limits.values()}
    if namespace is not None:
        values["namespace"] = namespace_id(namespace)
    statement = _ALL_JOBS if namespace is None else _JOBS_OF_NAMESPACE
    ids = [key for (key,) in await (await connection.execute(statement, values)).fetchall()]
    kept = ids[: limits.max_nodes]
    edges = await fetch(connection, _EDGES, {"jobs": kept, **limits.values()})
    graph = await _nodes(connection, kept, edges, limits)
    return {**graph, **truncated(len(ids) > len(kept), graph.get("truncated"))}


async def of_run(connection: AsyncConnection[Any], run: UUID, limits: GraphLimits) -> Json:
    """The inputs and outputs of a run and of its child runs."""
    cursor = await connection.execute(_FAMILY_OF_RUN, (run, limits.max_nodes + 1))
    family = await cursor.fetchall()
    cut = len(family) > limits.max_nodes
    del family[limits.max_nodes :]
    values = {"runs": [key for key, _ in family], **limits.values()}
    edges = await fetch(connection, _RUN_EDGES, values)
    graph = await _nodes(connection, {job for _, job in family}, edges, limits)
    return {**graph, **truncated(cut, graph.get("truncated"))}


async def _graph(
    connection: AsyncConnection[Any],
    start: Collection[UUID],
    limits: GraphLimits,
    also: UUID | None = None,
) -> Json:
    values = {
        "start": list(start),
        "depth": limits.depth,
        "limit": limits.max_nodes,
        "at": limits.at or "infinity",
        "seconds": limits.seconds,
    }
    walked = await (await connection.execute(_WALK, values)).fetchall()
    job_ids = [job for job, _ in walked]
    cut = any(each for _, each in walked)
    edges = await fetch(connection, _EDGES, {"jobs": job_ids, **limits.values()})
    graph = await _nodes(connection, job_ids, edges, limits, also)
    return {**graph, **truncated(cut, graph.get("truncated"))}


async def _nodes(
    connection: AsyncConnection[Any],
    job_ids: Collection[UUID],
    edges: list[Row],
    limits: GraphLimits,
    also: UUID | None = None,
) -> Json:
    job_rows = {row["id"]: row for row in await jobs.by_ids(connection, list(job_ids))}
    cut = len(edges) > limits.max_edges
    wanted = sorted({edge["dataset_id"] for edge in edges})
    room = max(limits.max_nodes - len(job_rows), 0)
    cut |= len(wanted) > room
    chosen = {*wanted[:room], *([also] if also else [])}
    dataset_rows = {row["id"]: row for row in await datasets.by_ids(connection, list(chosen))}
    names = {key: f"job:{r['namespace']}:{r['name']}" for key, r in job_rows.items()}
    names |= {key: f"dataset:{r['namespace']}:{r['name']}" for key, r in dataset_rows.items()}
    into: dict[UUID, list[Json]] = defaultdict(list)
    out: dict[UUID, list[Json]] = defaultdict(list)
    io: dict[UUID, list[Row]] = defaultdict(list)
    # Each edge is in both nodes, and in the inputs and outputs of the job.
    room = response_bytes(connection)
    for edge in edges:
        job, dataset = edge["job_id"], edge["dataset_id"]
        if job not in names or dataset not in names:
            continue
        room -= 2 * len(names[job]) + 3 * len(names[dataset]) + _EDGE_BYTES
        if room < 0:
            cut = True
            break
        origin, end = (job, dataset) if edge["output"] else (dataset, job)
        shown = {"origin": names[origin], "destination": names[end]}
        out[origin].append(shown)
        into[end].append(shown)
        io[job].append({**edge, **_name(dataset_rows[dataset])})
    data = await _data(connection, job_rows, dataset_rows, io, limits.at)
    nodes = [
        {
            "id": names[key],
            "type": "JOB" if key in job_rows else "DATASET",
            "data": data[key],
            "inEdges": sorted(into[key], key=_edge_order),
            "outEdges": sorted(out[key], key=_edge_order),
        }
        for key in sorted(names, key=lambda key: names[key])
    ]
    cut |= any("truncated" in node["data"] for node in nodes)
    return {"graph": nodes, **truncated(cut)}


def _edge_order(edge: Json) -> tuple[str, str]:
    return edge["origin"], edge["destination"]


def _name(row: Row) -> Json:
    return {"namespace": row["namespace"], "name": row["name"]}


async def _data(
    connection: AsyncConnection[Any],
    job_rows: dict[UUID, Row],
    dataset_rows: dict[UUID, Row],
    io: dict[UUID, list[Row]],
    at: datetime | None,
) -> dict[UUID, Json]:
    latest = await runs.latest_of_jobs(connection, list(job_rows), 1, at=at)
    if at is not None:
        latest = {job: [run_as_of(run, at) for run in of] for job, of in latest.items()}
        dataset_rows = await datasets_as_of(connection, dataset_rows, at)
    shown = await runs.shaped(connection, [run for listed in latest.values() for run in listed])
    tags = await datasets.tags_of(connection, list(dataset_rows))
    needed = [_facets_of_graph(row) for row in dataset_rows.values()]
    texts = await datasets.documents_of(connection, needed)
    children: dict[UUID, list[Json]] = defaultdict(list)
    for row in job_rows.values():
        if row["parent_id"] in job_rows:
            children[row["parent_id"]].append(_name(row))
    data: dict[UUID, Json] = {}
    for key, row in job_rows.items():
        runs_of = latest.get(key, [])
        run = shown[runs_of[0]["id"]] if runs_of else None
        data[key] = _job_data(row, io[key], run, children[key])
    for key, row in dataset_rows.items():
        facets = datasets.full_facets(key, _facets_of_graph(row)["facets"], texts)
        data[key] = {
            **datasets.head_json(row, datasets.all_tags(tags[key], facets)),
            "description": datasets.description(row, facets),
            "lastLifecycleState": row["lifecycle"],
            **truncated(row["cut"], datasets.cut_facets(facets)),
        }
    return data


def _facets_of_graph(row: Row) -> Row:
    """The only facets that a graph needs."""
    merged = datasets.merged_facets(row)
    names = ("documentation", "tags")
    return {"id": row["id"], "facets": {name: merged[name] for name in names if name in merged}}


def _job_data(row: Row, io: list[Row], run: Json | None, children: list[Json]) -> Json:
    io = sorted(io, key=lambda each: (each["namespace"], each["name"]))
    return {
        **jobs.head_json(row),
        "currentRunUuid": run["id"] if run else None,
        "createdAt": to_rfc3339(row["created_at"]),
        "updatedAt": to_rfc3339(row["updated_at"]),
        "namespace": row["namespace"],
        "inputs": jobs.dataset_names(io, output=False),
        "outputs": jobs.dataset_names(io, output=True),
        "location": jobs.location(row),
        "description": jobs.description(row),
        "latestRun": run,
        **({"children": sorted(children, key=lambda c: c["name"])} if children else {}),
        **truncated(row["cut"], run is not None and run.get("truncated")),
    }
