"""A stored event in the shape in which Marquez lists it: facets that it knows stand there as null
where an event has none.

Only what an event of its kind is made of was checked when it came. What else it carries (a dataset
event with `inputs`, say) is anybody's guess, and is listed as it was sent.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from headwater.catalog.store.values import Json, Row, to_rfc3339

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
_NO_DESCRIPTION = {"description": None}


def told(row: Row) -> Any:
    """The event; one with numbers that the fast writer can't hold is passed on as it was sent."""
    event = json.loads(row["body"])
    shown: Json = {**event, "eventTime": to_rfc3339(row["event_time"])}
    for key, known in (("run", _RUN), ("job", _JOB)):
        if key in event:
            shown[key] = _with_facets(event[key], known)
    for key in ("inputs", "outputs"):
        if isinstance(event.get(key), list):
            shown[key] = [_dataset(each) for each in event[key]]
    if "dataset" in event:
        shown["dataset"] = _dataset(event["dataset"])
    try:
        orjson.dumps(shown)
    except TypeError:
        return orjson.Fragment(json.dumps(shown))
    return shown


def _with_facets(part: Any, known: Json) -> Any:
    facets = part.get("facets") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(facets, dict | None):
        return part
    return {**part, "facets": {**known, **(facets or {})}}


def _dataset(each: Any) -> Any:
    shown = _with_facets(each, _DATASET)
    if shown is each:
        return each
    schema = shown["facets"]["schema"]
    if isinstance(schema, dict) and isinstance(schema.get("fields"), list):
        fields = [{**_NO_DESCRIPTION, **f} if isinstance(f, dict) else f for f in schema["fields"]]
        shown["facets"]["schema"] = {**schema, "fields": fields}
    return {**shown, **{key: each.get(key) for key in ("inputFacets", "outputFacets")}}
