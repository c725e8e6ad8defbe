"""Single records: where they come from, what came of them, and how to make them again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import record_schemas as record_shapes
from headwater.catalog.api.params import NameInPath
from headwater.catalog.api.problems import json_response, not_found
from headwater.model import is_topic_name
from headwater.service.record_query_pool import RecordQuestions, desk_of

router = APIRouter(prefix="/api/v1/records/{topic}/{partition}/{offset}", tags=["lineage"])


@router.get("/ancestry", response_model=record_shapes.Ancestry)
async def get_ancestry(
    request: Request, topic: NameInPath, partition: int, offset: int
) -> Response:
    """The record and all it was made from, read from Kafka and the archives, with values."""
    return await _answer(request, RecordQuestions.ancestry.__name__, topic, partition, offset)


@router.get("/impact", response_model=record_shapes.RecordImpact)
async def get_impact(request: Request, topic: NameInPath, partition: int, offset: int) -> Response:
    """All that was made from the record, counted by topic and table, by the index of edges."""
    return await _answer(request, RecordQuestions.impact.__name__, topic, partition, offset)


@router.get("/replay", response_model=record_shapes.ReplayAnswer)
async def get_replay(request: Request, topic: NameInPath, partition: int, offset: int) -> Response:
    """The command that makes the record again, and what its dry run says. Nothing is written."""
    return await _answer(request, RecordQuestions.replay.__name__, topic, partition, offset)


async def _answer(
    request: Request, question: str, topic: str, partition: int, offset: int
) -> Response:
    possible = 0 <= partition < 2**31 and 0 <= offset < 2**63 and is_topic_name(topic)
    found: dict[str, Any] | None = None
    if possible:
        desk = desk_of(request)
        method = getattr(desk.questions, question)
        found = await desk.ask(lambda: method(topic, partition, offset))
    if found is None:
        raise not_found("Record", f"{topic}/{partition}@{offset}")
    return json_response(found)
