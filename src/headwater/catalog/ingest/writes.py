"""Whether an event reports that records were written to an output.

A stream names its outputs in every event, from its start: a dead letter topic is an output to which
nothing may ever be written. A batch run replaces or extends its output when it completes, even with
no rows.
"""

from __future__ import annotations

from typing import Any

from headwater.catalog.ingest.event import DatasetRef, Event


def is_streaming(event: Event) -> bool:
    """Whether the event is of a streaming job."""
    kind = event.job.facets.get("jobType") if event.job else None
    return isinstance(kind, dict) and kind.get("processingType") == "STREAMING"


def wrote_to(event: Event, output: DatasetRef) -> bool:
    """Whether the event reports a write to one of its outputs, or reports nothing about it."""
    if not is_streaming(event):
        return True
    written = _dict(event.run_facets.get("headwater_progress")).get("outputsWritten")
    if isinstance(written, list):
        return {"namespace": output.namespace, "name": output.name} in written
    rows = _dict(output.io_facets.get("outputStatistics")).get("rowCount")
    return not (type(rows) is int and rows == 0)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
