"""Routes for single records: ancestry, impact and replay."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import record_schemas
from headwater.catalog.api.params import NameInPath
from headwater.catalog.api.problems import json_response, not_found
from headwater.model import is_topic_name
from headwater.service.record_query_pool import RecordQueries, record_query_pool_of

router = APIRouter(prefix="/api/v1/records/{topic}/{partition}/{offset}", tags=["lineage"])


@router.get("/ancestry", response_model=record_schemas.Ancestry)
async def get_ancestry(
    request: Request, topic: NameInPath, partition: int, offset: int
) -> Response:
    """The record and its ancestors, with values, from Kafka and the archives."""
    return await _query(request, RecordQueries.ancestry.__name__, topic, partition, offset)


@router.get("/impact", response_model=record_schemas.RecordImpact)
async def get_impact(request: Request, topic: NameInPath, partition: int, offset: int) -> Response:
    """All records derived from the record, with counts by topic and table, from the index."""
    return await _query(request, RecordQueries.impact.__name__, topic, partition, offset)


@router.get("/replay", response_model=record_schemas.ReplayAnswer)
async def get_replay(request: Request, topic: NameInPath, partition: int, offset: int) -> Response:
    """The command that produces the record again, and its dry run. Nothing is written."""
    return await _query(request, RecordQueries.replay.__name__, topic, partition, offset)


async def _query(request: Request, query: str, topic: str, partition: int, offset: int) -> Response:
    valid = 0 <= partition < 2**31 and 0 <= offset < 2**63 and is_topic_name(topic)
    result: dict[str, Any] | None = None
    if valid:
        pool = record_query_pool_of(request)
        method = getattr(pool.queries, query)
        result = await pool.run(lambda: method(topic, partition, offset))
    if result is None:
        raise not_found("Record", f"{topic}/{partition}@{offset}")
    return json_response(result)
