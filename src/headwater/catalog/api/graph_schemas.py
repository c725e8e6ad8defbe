"""The shapes of graphs and of ways back through them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from headwater.catalog.api.schemas import NamespacedName


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


class Record(BatchOfRecords):
    topic: str
    partition: int
    offset: int
    truncated: bool | None = None
