"""Questions over the graph: lineage of datasets, jobs, columns and runs, and of single records."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.api import graph_schemas as graph_shapes
from headwater.catalog.api.params import Depth, NameInPath, node_parts, splits, time_param
from headwater.catalog.api.problems import bad_fields, json_response, not_found, refused
from headwater.catalog.api.service import service_of
from headwater.catalog.ingest.checks import Checks
from headwater.catalog.store import columns, datasets, jobs, lineage, records, run_lineage, runs
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Row

router = APIRouter(prefix="/api/v1", tags=["lineage"])
NodeId = Annotated[
    str, Query(min_length=1, max_length=8192, description="`job:NAMESPACE:NAME` or `dataset:…`.")
]
# Columns around one column; each edge is small, and the page draws at most a few thousand.
_MAX_COLUMN_EDGES = 10_000


@router.get("/lineage", response_model=graph_shapes.Graph)
async def get_lineage(
    request: Request,
    nodeId: NodeId,
    depth: Depth = 20,
    at: Annotated[str | None, Query(description="The graph as it was known at this time.")] = None,
    run: Annotated[UUID | None, Query(description="Only what this run did.")] = None,
) -> Response:
    """Jobs and datasets around a node: the union of what all runs read and wrote.

    A walk that would grow beyond the limits is cut, and says `truncated`.
    """
    service = service_of(request)
    kind, _, name = node_parts(nodeId)
    moment = time_param("at", at) if at else None
    limits = service.settings
    bounds = lineage.Bounds(depth, limits.max_nodes, limits.query_seconds / 2, moment)
    async with service.question() as connection:
        if kind not in ("job", "dataset"):
            raise refused(404, f"Node '{nodeId}' must be of type dataset or job!")
        row = await _node(connection, kind, nodeId)
        if row is None:
            raise not_found("Job" if kind == "job" else "Dataset", name)
        if run is not None:
            if not await runs.rows_by_id(connection, [run]):
                raise not_found("Run", run)
            return json_response(await lineage.of_run(connection, run, bounds))
        around = lineage.around_job if kind == "job" else lineage.around_dataset
        return json_response(await around(connection, row["id"], bounds))


async def _node(connection: Connection, kind: str, node: str) -> Row | None:
    """The row of a node; where colons leave a doubt, the division for which there is one."""
    find = jobs.by_name if kind == "job" else datasets.by_name
    for namespace, name in splits(node.partition(":")[2]):
        row = await find(connection, namespace, name)
        if row is not None:
            return row
    return None


@router.get("/graph", response_model=graph_shapes.Graph)
async def get_whole_graph(
    request: Request,
    namespace: Annotated[
        str | None,
        Query(max_length=8192, description="Only its jobs, and those that use its datasets."),
    ] = None,
    at: Annotated[str | None, Query(description="The graph as it was known at this time.")] = None,
) -> Response:
    """All jobs and datasets; where there are too many, those that changed last, and `truncated`.

    The job by which `headwater doctor` sees events arrive is left out, unless its namespace is
    asked for.
    """
    service = service_of(request)
    limits = service.settings
    moment = time_param("at", at) if at else None
    bounds = lineage.Bounds(0, limits.max_nodes, limits.query_seconds / 2, moment)
    async with service.question() as connection:
        return json_response(await lineage.whole(connection, namespace or None, bounds))


@router.get("/column-lineage", response_model=graph_shapes.Graph)
async def get_column_lineage(
    request: Request,
    nodeId: NodeId,
    depth: Depth = 20,
    withDownstream: Annotated[bool, Query(description="Also what is made from it.")] = False,
) -> Response:
    """What columns are made from, with the kinds of transformation."""
    service = service_of(request)
    node, version = _without_version(nodeId)
    if version and withDownstream:
        raise bad_fields("query param withDownstream can't go with a version", status=400)
    kind, _, _ = node_parts(node)
    bounds = columns.ColumnBounds(depth, _MAX_COLUMN_EDGES, withDownstream)
    async with service.question() as connection:
        start = await _columns(connection, kind, node)
        if version:
            job = await _node(connection, kind, node) if kind == "job" else None
            key = job["id"] if job else None
            known = await columns.columns_of_version(connection, version, key)
            start = [column for column in start if column in known]
        if not start:
            raise refused(404, "Could not find node")
        return json_response(await columns.column_graph(connection, start, bounds))


def _without_version(node: str) -> tuple[str, UUID | None]:
    """`dataset:NAMESPACE:NAME#VERSION` in two; a `#` without an id behind it is part of a name."""
    name, _, version = node.rpartition("#")
    found = Checks.uuid_or_none(version)
    return (name, found) if found else (node, None)


async def _columns(connection: Connection, kind: str, node: str) -> list[columns.Column]:
    if kind == "job":
        job = await _node(connection, kind, node)
        return await columns.columns_of_job(connection, job["id"]) if job else []
    if kind == "dataset":
        dataset = await _node(connection, kind, node)
        return await columns.columns_of_dataset(connection, dataset) if dataset else []
    if kind != "datasetField":
        return []
    for place, field in splits(node.partition(":")[2]):
        dataset = await _node(connection, "dataset", f"dataset:{place}") if ":" in place else None
        if dataset is not None:
            known = await columns.columns_of_dataset(connection, dataset)
            if (dataset["id"], field) in known:
                return [(dataset["id"], field)]
    return []


@router.get("/runlineage/upstream", response_model=graph_shapes.UpstreamRuns)
async def get_upstream_runs(request: Request, runId: UUID, depth: Depth = 20) -> Response:
    """The run, and the runs that wrote what it has read."""
    service = service_of(request)
    most = service.settings.max_rows
    async with service.question() as connection:
        answer = await run_lineage.upstream(connection, runId, depth=depth, most=most)
    if not answer["runs"]:
        raise not_found("Run", runId)
    return json_response(answer)


@router.get("/records/{topic}/{partition}/{offset}", response_model=graph_shapes.Record)
async def get_record(
    request: Request,
    topic: NameInPath,
    partition: int,
    offset: int,
    namespace: Annotated[
        str | None, Query(description="The Kafka cluster, such as `kafka://localhost:9092`.")
    ] = None,
    depth: Annotated[int, Query(ge=0, le=100)] = 20,
) -> Response:
    """Which run, job version and batch wrote a record, and the trace of what that batch read."""
    if not (0 <= partition < 2**31 and 0 <= offset < 2**63) or "\0" in (namespace or ""):
        raise refused(404, "HTTP 404 Not Found")
    async with service_of(request).question() as connection:
        found = await records.record(
            connection, topic, partition, offset, namespace=namespace, depth=depth
        )
    if found is None:
        raise not_found("Record", f"{topic}/{partition}@{offset}")
    return json_response(found)
