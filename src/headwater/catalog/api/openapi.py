"""Request bodies in the OpenAPI document. FastAPI does not know them: handlers parse them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_ANY: Json = {"type": "object", "additionalProperties": True}
_UUID: Json = {"type": "string", "format": "uuid"}
_TIME: Json = {"type": "string", "format": "date-time"}


def _object(required: list[str], **properties: Json) -> Json:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": True,
    }


_NAME = _object(["namespace", "name"], namespace=_TEXT, name=_TEXT)
_DATASET = _object(
    ["namespace", "name"],
    namespace=_TEXT,
    name=_TEXT,
    facets=_ANY,
    inputFacets=_ANY,
    outputFacets=_ANY,
)
_DATASETS: Json = {"type": "array", "items": _DATASET}
_JOB = _object(["namespace", "name"], namespace=_TEXT, name=_TEXT, facets=_ANY)
_EVENT = _object(
    ["eventTime", "producer"],
    eventType={
        "type": "string",
        "enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"],
    },
    eventTime=_TIME,
    run=_object(["runId"], runId=_UUID, facets=_ANY),
    job=_JOB,
    dataset=_DATASET,
    inputs=_DATASETS,
    outputs=_DATASETS,
    producer=_TEXT,
    schemaURL=_TEXT,
)


def _body(schema: Json) -> Json:
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


EVENT = _body(_EVENT)
EVENTS = _body({"type": "array", "items": _EVENT})
EVENTS["requestBody"]["content"]["application/x-ndjson"] = {"schema": _TEXT}
NAMESPACE = _body(_object([], ownerName=_TEXT, description=_TEXT))
SOURCE = _body(
    _object(["type", "connectionUrl"], type=_TEXT, connectionUrl=_TEXT, description=_TEXT)
)
TAG = _body(_object([], description=_TEXT))
DATASET = _body(
    _object(
        ["type", "physicalName", "sourceName"],
        type={"type": "string", "enum": ["DB_TABLE", "STREAM"]},
        physicalName=_TEXT,
        sourceName=_TEXT,
        fields={
            "type": "array",
            "items": _object(
                ["name"],
                name=_TEXT,
                type=_TEXT,
                description=_TEXT,
                tags={"type": "array", "items": _TEXT},
            ),
        },
        tags={"type": "array", "items": _TEXT},
        description=_TEXT,
        runId=_UUID,
        schemaLocation=_TEXT,
    )
)
JOB = _body(
    _object(
        ["type"],
        type={"type": "string", "enum": ["BATCH", "STREAM", "SERVICE"]},
        inputs={"type": "array", "items": _NAME},
        outputs={"type": "array", "items": _NAME},
        location=_TEXT,
        description=_TEXT,
        runId=_UUID,
    )
)
RUN = _body(_object([], id=_UUID, nominalStartTime=_TIME, nominalEndTime=_TIME, args=_ANY))
