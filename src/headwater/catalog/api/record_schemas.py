"""Response schemas of single records and batches, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class RangeOfBatch(BaseModel):
    namespace: str
    topic: str
    partition: int
    first: int
    last: int


class Batch(BaseModel):
    batch: int
    jobVersion: str | None
    at: str
    inputs: list[RangeOfBatch]
    outputs: list[RangeOfBatch]


class RunBatches(BaseModel):
    runId: str
    batches: list[Batch]
    truncated: bool | None = None


class RangeOfParents(BaseModel):
    topic: str
    partition: int
    first: int
    last: int
    records: int


class RecordInKafka(BaseModel):
    topic: str
    partition: int
    offset: int
    # Text, or `{"base64": …}` for bytes that are not UTF-8.
    job_name: Any
    job_version: Any
    batch_version: int | None
    run_id: str | None
    record_id: str | None
    timestamp: int | None
    state: str
    reason: str | None
    unlisted: int
    # Ranges that contain parents; which of their records are parents is not known.
    ranges: list[RangeOfParents]
    # Whether there may be parents that nothing names.
    more_parents: bool
    truncated: bool
    value: Any = None


class Ancestry(RecordInKafka):
    parents: list[Ancestry]


class RecordBelow(RecordInKafka):
    # Whether it may be made from the record, but not for certain.
    within: bool
    children: list[RecordBelow]


class RecordImpact(RecordBelow):
    counts: dict[str, int]
    within_counts: dict[str, int]
    tables: dict[str, int]
    tables_within: dict[str, int]
    unread_tables: dict[str, str]
    lower_bound: bool
    cut: str | None
    unlisted_edges: dict[str, int]
    indexed: dict[str, dict[str, int]]
    behind: dict[str, dict[str, int]]
    not_indexed: list[str]


class Refusal(BaseModel):
    message: str
    hint: str | None


class RangeToReplay(BaseModel):
    partition: int
    first: int
    last: int


class DryRun(BaseModel):
    # None if the name of the transform, which is part of the id, is unknown.
    replayId: str | None
    topic: str
    target: str
    jobVersion: str
    records: int
    offsets: list[RangeToReplay]
    files: int
    archiveVersion: int
    behind: dict[str, int]
    # Results of these records that the target already has; None if counting took too long.
    resultsThere: int | None
    state: str


class ReplayAnswer(BaseModel):
    command: str | None
    # Whether the command can be run as it is, without a name to fill in.
    complete: bool
    logic: str | None
    note: str | None
    dryRun: DryRun | None
    refused: Refusal | None
