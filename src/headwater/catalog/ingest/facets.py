"""Facets with the time at which they were said; the later word holds, in any order of arrival."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headwater.catalog.ingest.json_text import json_text

# Name -> (microseconds since 1970, text). At the same instant the greater text holds, so that the
# outcome does not depend on which of two came first.
FacetMap = dict[str, tuple[int, str]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Whole microseconds since 1970; floats would round."""
    span = at - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def facet_map(facets: dict[str, Any], at: datetime) -> FacetMap:
    """Facets of one event."""
    moment = microseconds(at)
    return {name: (moment, json_text(body)) for name, body in facets.items()}


def merge_into(known: FacetMap, said: FacetMap) -> None:
    """Add what was said; commutative, and harmless when repeated."""
    for name, word in said.items():
        if name not in known or known[name] < word:
            known[name] = word
