"""Stored values as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

Json = dict[str, Any]
Row = dict[str, Any]

# More tags of one facet are not shown.
_MAX_FACET_TAGS = 1000


def to_rfc3339(at: datetime | None) -> str | None:
    """`2026-11-15T10:00:01Z`, with milliseconds or microseconds if there are any."""
    if at is None:
        return None
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    text = at.isoformat()[:-6]
    if at.microsecond and text.endswith("000"):
        text = text[:-3]
    return text + "Z"


def short_time(at: datetime) -> str:
    """The same without seconds if they are zero, as in the arguments of a run."""
    text = to_rfc3339(at) or ""
    return text.removesuffix(":00Z") + "Z" if text.endswith(":00Z") else text


def facets_json(facets: dict[str, list[Any]]) -> Json:
    """Facets by name; the stored texts are embedded without parsing."""
    return {name: orjson.Fragment(text) for name, (_, text) in facets.items()}


def facet(facets: dict[str, list[Any]], name: str) -> Json:
    """A parsed facet; empty if it is missing or not an object."""
    value = facets.get(name)
    body = orjson.loads(value[1]) if value else None
    return body if isinstance(body, dict) else {}


def facet_tags(body: Json) -> list[tuple[str, str]]:
    """(column, tag) of OpenLineage's `tags` facet; the column is empty for the object itself.

    A tag of the API has a name only: `key`, or `key:value` unless the value is `true`, or the key
    again, as Airflow sends its tags.
    """
    tags: list[tuple[str, str]] = []
    for each in dicts_of(body.get("tags"))[:_MAX_FACET_TAGS]:
        key, value, column = (text_of(each.get(name)) for name in ("key", "value", "field"))
        if key:
            name = f"{key}:{value}" if value and value.lower() not in ("true", key.lower()) else key
            tags.append((column or "", name))
    return tags


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def dicts_of(value: Any) -> list[Json]:
    """The objects of a list in a facet. Facets are not validated: other values are ignored."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
