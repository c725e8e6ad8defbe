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
    # Routes are matched before decoding, so that a slash inside a name does not end it.
    name = unquote(value, errors="strict")
    if "\0" in name or not name.strip() or len(name) > MAX_NAME_CHARACTERS:
        raise ValueError("not a name")
    return name


def _whole(value: Any) -> Any:
    # As Java reads numbers: neither `1.0` nor `1_000` nor digits of other scripts.
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise PydanticCustomError("int_parsing", "not a whole number")
    return value


def _fuzzy(value: Any) -> Any:
    """Words of a choice in any case, and with another mark for `_`, as Dropwizard takes them."""
    return value.strip().upper().replace("-", "_").replace(".", "_")


_INT = 2**31 - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")
Fuzzy = BeforeValidator(_fuzzy)
_Whole = BeforeValidator(_whole)
_TIME_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
NameInPath = Annotated[str, BeforeValidator(_decoded), Path()]
IdInPath = Annotated[UUID, BeforeValidator(unquote), Path()]
Limit = Annotated[int, _Whole, Query(ge=0, le=_INT, description="Most entries to return.")]
Offset = Annotated[int, _Whole, Query(ge=0, le=_INT, description="Entries to skip.")]
Depth = Annotated[
    int, _Whole, Query(ge=0, le=_INT, description="How many jobs away from the node.")
]


class RunState(StrEnum):
    """How a run stands."""

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
    """A time of the query; a `+` that was sent unencoded has become a space, and is no time."""
    try:
        return parse_time(value)
    except ValueError:
        good = _TIME_START.match(value)
        index = good.end() if good else 0
        text = f"Parameter is invalid: Text '{value}' could not be parsed at index {index}"
        raise refused(
            400, text, f"query param {name} must be an ISO 8601 time with a zone"
        ) from None


def node_parts(node: str) -> tuple[str, str, str]:
    """`dataset:kafka://broker:9092:clicks` -> dataset, its namespace, its name.

    A namespace may hold colons and so may a name; as in Marquez the last colon divides them,
    unless the name is known to hold one (see the lookup).
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
    """All ways to divide `NAMESPACE:NAME`, the last colon first."""
    at = [i for i, mark in enumerate(text) if mark == ":"]
    return [(text[:i], text[i + 1 :]) for i in reversed(at) if text[:i] and text[i + 1 :]][:32]
