"""Lineage graphs: datasets, jobs, columns, runs and single records."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from headwater.catalog.api.params import Depth, NameInPath, node_parts, splits, time_param
from headwater.catalog.api.problems import bad_fields, json_response, not_found, refused
from headwater.catalog.api.schemas import NamespacedName
from headwater.catalog.api.service import service_of
from headwater.catalog.ingest.checks import Checks
from headwater.catalog.store import columns, datasets, jobs, lineage, records, run_lineage, runs
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Row

router = APIRouter(prefix="/api/v1", tags=["lineage"])
NodeId = Annotated[
    str, Query(min_length=1, max_length=8192, description="`job:NAMESPACE:NAME` or `dataset:…`.")
]
# Edges are small, and the page draws at most a few thousand.
_MAX_COLUMN_EDGES = 10_000


class Edge(BaseModel):
    origin: str
    destination: str


class Node(BaseModel):
    id: str
    type: str
    data: dict[str, Any]
    inEdges: list[Edge]
    outEdges: list[Edge]


class Graph(BaseModel):
    graph: list[Node]
    truncated: bool | None = None


class RunSummary(BaseModel):
    id: str
    start: str | None
    end: str | None
    status: str


class UpstreamInput(BaseModel):
    namespace: str
    name: str
    version: str | None
    producedByRunId: str | None


class UpstreamJob(NamespacedName):
    version: str | None


class UpstreamRun(BaseModel):
    job: UpstreamJob
    run: RunSummary
    inputs: list[UpstreamInput]


class UpstreamRuns(BaseModel):
    runs: list[UpstreamRun]
    truncated: bool | None = None


class RunOfRecord(BaseModel):
    id: str
    state: str | None
    startedAt: str | None


class BatchOfRecords(BaseModel):
    namespace: str
    first: int
    last: int
    run: RunOfRecord
    job: NamespacedName | None
    jobVersion: str | None
    batch: int
    writtenAt: str
    trace: list[RangeOfRecords]


class RangeOfRecords(BaseModel):
    namespace: str
    topic: str
    partition: int
    first: int
    last: int
    writtenBy: list[BatchOfRecords]


class RecordOrigin(BatchOfRecords):
    topic: str
    partition: int
    offset: int
    truncated: bool | None = None


@router.get("/lineage", response_model=Graph)
async def get_lineage(
    request: Request,
    nodeId: NodeId,
    depth: Depth = 20,
    at: Annotated[str | None, Query(description="The graph as it was known at this time.")] = None,
    run: Annotated[UUID | None, Query(description="Only what this run did.")] = None,
) -> Response:
    """Jobs and datasets around a node: the union of what all runs read and wrote.

    A graph that exceeds the limits is cut, and has `truncated` set.
    """
    service = service_of(request)
    kind, _, name = node_parts(nodeId)
    moment = time_param("at", at) if at else None
    limits = service.settings
    bounds = lineage.GraphLimits(depth, limits.max_nodes, limits.query_seconds / 2, moment)
    async with service.graph_connection() as connection:
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
    """The row of a node. Colons make its id ambiguous: the first split that exists wins."""
    find = jobs.by_name if kind == "job" else datasets.by_name
    for namespace, name in splits(node.partition(":")[2]):
        row = await find(connection, namespace, name)
        if row is not None:
            return row
    return None


@router.get("/graph", response_model=Graph)
async def get_graph(
    request: Request,
    namespace: Annotated[
        str | None,
        Query(max_length=8192, description="Only its jobs, and jobs that use its datasets."),
    ] = None,
    at: Annotated[str | None, Query(description="The graph as it was known at this time.")] = None,
) -> Response:
    """All jobs and datasets. If there are too many, the last changed ones, with `truncated` set.

    The job that `headwater doctor` sends its test events for is included only if its namespace is
    requested.
    """
    service = service_of(request)
    limits = service.settings
    moment = time_param("at", at) if at else None
    bounds = lineage.GraphLimits(0, limits.max_nodes, limits.query_seconds / 2, moment)
    async with service.graph_connection() as connection:
        return json_response(await lineage.complete(connection, namespace or None, bounds))


@router.get("/column-lineage", response_model=Graph)
async def get_column_lineage(
    request: Request,
    nodeId: NodeId,
    depth: Depth = 20,
    withDownstream: Annotated[bool, Query(description="Also columns derived from it.")] = False,
) -> Response:
    """The columns that a column is derived from, with the types of transformation.

    A version after `#` selects the lineage at that version: its own, and that of the datasets
    upstream as of then.
    """
    service = service_of(request)
    node, version = _without_version(nodeId)
    if version and withDownstream:
        raise bad_fields("query param withDownstream must not be set with a version", status=400)
    kind, _, _ = node_parts(node)
    seconds = service.settings.query_seconds / 2
    bounds = columns.ColumnLimits(depth, _MAX_COLUMN_EDGES, seconds, withDownstream)
    async with service.graph_connection() as connection:
        start = await _columns(connection, kind, node)
        versions = columns.NOW
        if version:
            job = await _node(connection, kind, node) if kind == "job" else None
            key = job["id"] if job else None
            versions = await columns.versions_as_of(connection, version, key)
            known = versions.columns()
            start = [column for column in start if column in known]
        if not start:
            raise refused(404, "Could not find node")
        return json_response(await columns.column_graph(connection, start, bounds, versions))


def _without_version(node: str) -> tuple[str, UUID | None]:
    """Split `dataset:NAMESPACE:NAME#VERSION`. A `#` without a UUID after it is part of the name."""
    name, _, suffix = node.rpartition("#")
    version = Checks.uuid_or_none(suffix)
    return (name, version) if version else (node, None)


async def _columns(connection: Connection, kind: str, node: str) -> list[columns.Column]:
    if kind == "job":
        job = await _node(connection, kind, node)
        return await columns.columns_of_job(connection, job["id"]) if job else []
    if kind == "dataset":
        dataset = await _node(connection, kind, node)
        return await columns.columns_of_dataset(connection, dataset) if dataset else []
    if kind != "datasetField":
        return []
    for name, field in splits(node.partition(":")[2]):
        dataset = await _node(connection, "dataset", f"dataset:{name}") if ":" in name else None
        if dataset is not None:
            known = await columns.columns_of_dataset(connection, dataset)
            if (dataset["id"], field) in known:
                return [(dataset["id"], field)]
    return []


@router.get("/runlineage/upstream", response_model=UpstreamRuns)
async def get_upstream_runs(request: Request, runId: UUID, depth: Depth = 20) -> Response:
    """The run, and the runs that wrote its inputs."""
    service = service_of(request)
    max_runs = service.settings.max_rows
    async with service.graph_connection() as connection:
        lineage_of_run = await run_lineage.upstream(
            connection,
            runId,
            depth=depth,
            max_runs=max_runs,
            seconds=service.settings.query_seconds / 2,
        )
    if not lineage_of_run["runs"]:
        raise not_found("Run", runId)
    return json_response(lineage_of_run)


@router.get("/records/{topic}/{partition}/{offset}", response_model=RecordOrigin)
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
    """The run, job version and batch that wrote a record, and a trace of that batch's inputs."""
    if not (0 <= partition < 2**31 and 0 <= offset < 2**63) or "\0" in (namespace or ""):
        raise refused(404, "HTTP 404 Not Found")
    async with service_of(request).query_connection() as connection:
        record = await records.record(
            connection, topic, partition, offset, namespace=namespace, depth=depth
        )
    if record is None:
        raise not_found("Record", f"{topic}/{partition}@{offset}")
    return json_response(record)
