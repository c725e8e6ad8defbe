"""Headers that other applications put on a record: which of them outputs inherit, and how many.

An output's value is not that of its parent, so headers that describe the parent's content (a schema
id, a content type) would be wrong on it. Outputs inherit what concerns the flow: trace context,
the context attributes of CloudEvents, and the marks of a replay. The sink applies both rules to
outputs (`LineageHeaders.java`); redriven records have the original value and keep all headers, up
to the limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.model import Header
from headwater.model.header import DROPPED_HEADERS

# Headers of a replayed record, in addition to its lineage: the replay that wrote it, and how often
# its input has been replayed, this replay included.
REPLAY_ID, REPLAY_COUNT = "replay_id", "replay_count"
# W3C trace context and baggage, CloudEvents in binary mode, and replays, whose count ends a loop.
INHERITED_HEADERS = ("traceparent", "tracestate", "baggage", "ce_*", REPLAY_ID, REPLAY_COUNT)
# CloudEvents attributes that describe the content. Without `ce_type`, which is mandatory, a record
# is not a CloudEvent, so that it must not have `ce_specversion`, which marks one.
CONTENT_HEADERS = (
    "ce_specversion",
    "ce_type",
    "ce_datacontenttype",
    "ce_dataschema",
    # Of earlier versions of CloudEvents.
    "ce_datacontentencoding",
    "ce_schemaurl",
    # The address of the content, if it is not in the record.
    "ce_dataref",
)


def limited(headers: Iterable[Header], max_bytes: int, max_count: int) -> tuple[Header, ...]:
    """The headers that fit, in order, and if some do not, a header with their number."""
    kept: list[Header] = []
    size = excess = 0
    for name, value in headers:
        more = len(name.encode("utf-8", "surrogateescape")) + len(value or b"")
        if len(kept) == max_count or size + more > max_bytes:
            excess += 1
        else:
            kept.append((name, value))
            size += more
    if excess:
        kept.append((DROPPED_HEADERS, str(excess).encode()))
    return tuple(kept)
