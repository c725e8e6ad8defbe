"""Response schemas, for the OpenAPI document only: the store builds the responses."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Facets = dict[str, Any]


class Error(BaseModel):
    code: int
    message: str
    errors: list[str] | None = None


class Health(BaseModel):
    status: str
    version: str
    database: str


class Probe(BaseModel):
    status: str
    version: str


class Namespace(BaseModel):
    name: str
    createdAt: str
    updatedAt: str
    ownerName: str
    description: str | None
    isHidden: bool


class Namespaces(BaseModel):
    namespaces: list[Namespace]
    truncated: bool | None = None


class Source(BaseModel):
    type: str
    name: str
    createdAt: str
    updatedAt: str
    connectionUrl: str
    description: str | None


class Sources(BaseModel):
    sources: list[Source]
    truncated: bool | None = None


class Tag(BaseModel):
    name: str
    description: str | None


class Tags(BaseModel):
    tags: list[Tag]
    truncated: bool | None = None


class NamespacedName(BaseModel):
    namespace: str
    name: str


class VersionedName(NamespacedName):
    version: str


class Field(BaseModel):
    name: str
    type: str | None
    tags: list[str]
    description: str | None


class ColumnInput(BaseModel):
    namespace: str
    dataset: str
    field: str
    transformationDescription: str | None
    transformationType: str | None


class ColumnLineage(BaseModel):
    name: str
    inputFields: list[ColumnInput]
    transformationDescription: str | None
    transformationType: str | None


class Dataset(BaseModel):
    id: NamespacedName
    type: str
    name: str
    physicalName: str
    createdAt: str
    updatedAt: str
    namespace: str
    sourceName: str
    fields: list[Field]
    tags: list[str]
    lastModifiedAt: str | None
    lastWrittenAt: str | None
    lastLifecycleState: str | None
    description: str | None
    currentVersion: str | None
    columnLineage: list[ColumnLineage] | None
    facets: Facets
    schemaLocation: str | None = None
    deleted: bool
    truncated: bool | None = None


class Datasets(BaseModel):
    totalCount: int
    datasets: list[Dataset]
    truncated: bool | None = None


class DatasetVersionOfRun(BaseModel):
    datasetVersionId: VersionedName
    facets: Facets


class Run(BaseModel):
    id: str
    createdAt: str
    updatedAt: str
    nominalStartTime: str | None
    nominalEndTime: str | None
    state: str
    startedAt: str | None
    endedAt: str | None
    durationMs: int | None
    args: dict[str, Any]
    jobVersion: VersionedName | None
    inputDatasetVersions: list[DatasetVersionOfRun]
    outputDatasetVersions: list[DatasetVersionOfRun]
    facets: Facets
    truncated: bool | None = None


class Runs(BaseModel):
    runs: list[Run]
    totalCount: int
    truncated: bool | None = None


class RunFacets(BaseModel):
    runId: str
    facets: Facets


class DatasetVersion(BaseModel):
    id: NamespacedName
    type: str
    name: str
    physicalName: str
    createdAt: str
    version: str
    namespace: str
    sourceName: str
    fields: list[Field]
    tags: list[str]
    lifecycleState: str | None
    description: str | None
    currentSchemaVersion: str | None
    createdByRun: Run | None
    facets: Facets
    schemaLocation: str | None = None
    truncated: bool | None = None


class DatasetVersions(BaseModel):
    versions: list[DatasetVersion]
    totalCount: int
    truncated: bool | None = None


class Job(BaseModel):
    id: NamespacedName
    type: str
    name: str
    simpleName: str
    parentJobName: str | None
    parentJobUuid: str | None
    createdAt: str
    updatedAt: str
    namespace: str
    inputs: list[NamespacedName]
    outputs: list[NamespacedName]
    location: str | None
    description: str | None
    latestRun: Run | None
    latestRuns: list[Run] | None
    facets: Facets
    currentVersion: str | None
    labels: list[str]
    tags: list[str]
    truncated: bool | None = None


class Jobs(BaseModel):
    totalCount: int
    jobs: list[Job]
    truncated: bool | None = None


class ListedRun(NamespacedName):
    """A run without its facets and datasets; namespace and name are those of its job."""

    id: str
    state: str
    startedAt: str | None
    endedAt: str | None
    updatedAt: str
    durationMs: int | None


class ListedJob(NamespacedName):
    simpleName: str
    type: str
    latestRun: ListedRun | None


class JobHierarchy(BaseModel):
    parent: ListedJob | None
    children: list[ListedJob]
    totalCount: int
    truncated: bool | None = None


class RunHierarchy(BaseModel):
    job: NamespacedName
    parent: ListedRun | None
    children: list[ListedRun]
    totalCount: int
    truncated: bool | None = None


class JobVersion(BaseModel):
    id: VersionedName
    name: str
    createdAt: str
    version: str
    namespace: str
    location: str | None
    inputs: list[NamespacedName]
    outputs: list[NamespacedName]
    latestRun: Run | None
    truncated: bool | None = None


class JobVersions(BaseModel):
    versions: list[JobVersion]
    truncated: bool | None = None


class Events(BaseModel):
    totalCount: int
    events: list[dict[str, Any]]
    truncated: bool | None = None


class QualityRun(NamespacedName):
    id: str
    state: str


class QualityPoint(BaseModel):
    at: str
    version: str
    written: bool
    run: QualityRun | None
    facets: dict[str, Any]
    truncated: bool | None = None


class QualityOverTime(BaseModel):
    quality: list[QualityPoint]
    truncated: bool | None = None


class SearchResult(BaseModel):
    type: str
    name: str
    updatedAt: str
    namespace: str
    nodeId: str


class SearchResults(BaseModel):
    results: list[SearchResult]
    totalCount: int
    truncated: bool | None = None


class EventCount(BaseModel):
    startInterval: str
    endInterval: str
    fail: int
    start: int
    complete: int
    abort: int


class Count(BaseModel):
    startInterval: str
    endInterval: str
    count: int


class BatchSummary(BaseModel):
    received: int
    successful: int
    failed: int
    retriable: int
    non_retriable: int


class FailedEvent(BaseModel):
    index: int
    reason: str
    retriable: bool


class BatchAnswer(BaseModel):
    status: str
    summary: BatchSummary
    failed_events: list[FailedEvent]
