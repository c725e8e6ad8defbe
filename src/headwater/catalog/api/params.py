"""Parameters that routes share."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import unquote
from uuid import UUID

from fastapi import Path, Query
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from headwater.catalog.api.problems import bad_fields, refused
from headwater.catalog.ingest.checks import MAX_NAME_CHARACTERS, parse_time


def _decoded(value: Any) -> Any:
    # Paths are decoded after routing, so that an encoded slash inside a name does not split it.
    name = unquote(value, errors="strict")
    if "\0" in name or not name.strip() or len(name) > MAX_NAME_CHARACTERS:
        raise ValueError("not a valid name")
    return name


def _integer(value: Any) -> Any:
    # As Java parses integers: neither `1.0` nor `1_000` nor digits of other scripts.
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise PydanticCustomError("int_parsing", "not an integer")
    return value


def _fuzzy(value: Any) -> Any:
    """Accept enum values in any case, and `-` or `.` for `_`, as Dropwizard does."""
    return value.strip().upper().replace("-", "_").replace(".", "_")


_MAX_INT = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")
Fuzzy = BeforeValidator(_fuzzy)
_Integer = BeforeValidator(_integer)
_TIME_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
NameInPath = Annotated[str, BeforeValidator(_decoded), Path()]
IdInPath = Annotated[UUID, BeforeValidator(unquote), Path()]
Limit = Annotated[int, _Integer, Query(ge=0, le=_MAX_INT, description="Maximum number of entries.")]
Offset = Annotated[int, _Integer, Query(ge=0, le=_MAX_INT, description="Entries to skip.")]
Depth = Annotated[
    int, _Integer, Query(ge=0, le=_MAX_INT, description="Maximum distance from the node, in jobs.")
]


class RunState(StrEnum):
    """State of a run."""

    NEW = "NEW"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"
    FAILED = "FAILED"
    OTHER = "OTHER"


RunStateParam = Annotated[RunState, Fuzzy]
LastRunStates = Annotated[
    list[RunStateParam], Query(description="Only jobs whose last run is in one of these states.")
]


def time_param(name: str, value: str) -> datetime:
    """Parse a time. An unencoded `+` of the zone arrives as a space, and is refused."""
    try:
        return parse_time(value)
    except ValueError:
        prefix = _TIME_START.match(value)
        index = prefix.end() if prefix else 0
        text = f"Parameter is invalid: Text '{value}' could not be parsed at index {index}"
        raise refused(
            400, text, f"query param {name} must be an ISO 8601 time with a zone"
        ) from None


def node_parts(node: str) -> tuple[str, str, str]:
    """`dataset:kafka://broker:9092:clicks` -> dataset, its namespace, its name.

    Both may contain colons; as in Marquez the last one separates them. Lookups also try the other
    splits.
    """
    kind, first, rest = node.partition(":")
    if not first or kind not in ("dataset", "datasetField", "job", "run"):
        raise refused(404, "HTTP 404 Not Found")
    namespace, colon, name = rest.rpartition(":")
    if kind != "run" and (not colon or not namespace or not name):
        raise bad_fields(
            "query param nodeId must be job:NAMESPACE:NAME, dataset:NAMESPACE:NAME or "
            "datasetField:NAMESPACE:NAME:FIELD",
            status=400,
        )
    return kind, namespace, name


def splits(text: str) -> list[tuple[str, str]]:
    """All ways to split `NAMESPACE:NAME`, the last colon first."""
    colons = [i for i, character in enumerate(text) if character == ":"]
    return [(text[:i], text[i + 1 :]) for i in reversed(colons) if text[:i] and text[i + 1 :]][:32]
