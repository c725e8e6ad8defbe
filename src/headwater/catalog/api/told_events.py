"""A stored event in the shape in which Marquez lists it: facets that it knows stand there as null
where an event has none."""

from __future__ import annotations

import json
from typing import Any

import orjson

from headwater.catalog.store.values import Json, Row, instant

_RUN = dict.fromkeys(("nominalTime", "parent"))
_JOB = dict.fromkeys(("documentation", "sourceCodeLocation", "sql"))
_DATASET = dict.fromkeys(
    (
        "documentation",
        "schema",
        "dataSource",
        "description",
        "lifecycleStateChange",
        "columnLineage",
        "symlinks",
    )
)


def told(row: Row) -> Any:
    """The event; one with numbers that the fast writer can't hold is passed on as it was sent."""
    event = json.loads(row["body"])
    shown: Json = {**event, "eventTime": instant(row["event_time"])}
    for key, known in (("run", _RUN), ("job", _JOB)):
        if isinstance(event.get(key), dict):
            shown[key] = {**event[key], "facets": {**known, **(event[key].get("facets") or {})}}
    for key in ("inputs", "outputs"):
        if isinstance(event.get(key), list):
            shown[key] = [_dataset(each) for each in event[key]]
    if isinstance(event.get("dataset"), dict):
        shown["dataset"] = _dataset(event["dataset"])
    try:
        orjson.dumps(shown)
    except TypeError:
        return orjson.Fragment(json.dumps(shown))
    return shown


def _dataset(each: Json) -> Json:
    facets = {**_DATASET, **(each.get("facets") or {})}
    schema = facets["schema"]
    if isinstance(schema, dict) and isinstance(schema.get("fields"), list):
        fields = [{**_NO_DESCRIPTION, **f} if isinstance(f, dict) else f for f in schema["fields"]]
        facets["schema"] = {**schema, "fields": fields}
    io = {key: each.get(key) for key in ("inputFacets", "outputFacets")}
    return {**each, "facets": facets, **io}


_NO_DESCRIPTION = {"description": None}
