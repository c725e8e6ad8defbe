"""Reads events from the catalog or from the spool, and builds Spark progress for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.catalog_support import Catalog

from headwater.openlineage.spool.files import decode_line, segments_of
from headwater.settings import Settings

Event = dict[str, Any]


def reporting_to(catalog: Catalog, settings: Settings, **lineage: Any) -> Settings:
    """The settings with this catalog for the events of jobs."""
    changed = {
        "catalog": settings.catalog.model_copy(update={"url": catalog.url}),
        "lineage": settings.lineage.model_copy(update=lineage),
    }
    return settings.model_copy(update=changed)


def emitted(catalog: Catalog, job: str) -> list[Event]:
    """The events of a job in the catalog, in the order of time."""
    events = catalog.get("/events/lineage?limit=1000&sortDirection=asc")["events"]
    return [event for event in events if event["job"]["name"] == job]


def spooled(settings: Settings, job: str) -> list[Event]:
    """The events of a job in the spool, in the order of time."""
    files = [path.read_bytes() for path in segments_of(settings.spool_dir)]
    lines = [line for content in files for line in content.splitlines(keepends=True)]
    events = [json.loads(text) for line in lines if (text := decode_line(line))]
    of_job = [event for event in events if event["job"]["name"] == job]
    return sorted(of_job, key=lambda event: str(event["eventTime"]))


def states(events: list[Event], run_id: str | None = None) -> list[str]:
    return [e["eventType"] for e in events if run_id in (None, e["run"]["runId"])]


def names(event: Event, side: str) -> list[str]:
    return [each["name"] for each in event[side]]


def columns(event: Event) -> dict[str, dict[str, set[str]]]:
    """Column lineage of the first output: output field -> input field -> transformations."""
    fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]
    return {
        output: {
            f"{one['name']}:{one['field']}": {each["subtype"] for each in one["transformations"]}
            for one in lineage["inputFields"]
        }
        for output, lineage in fields.items()
    }


def batch(
    number: int, read: Mapping[str, tuple[int, int]], written: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Progress of a micro-batch: for each topic the first offset, and the one after the last."""
    begin = {topic: {"0": first} for topic, (first, _) in read.items()}
    end = {topic: {"0": after} for topic, (_, after) in read.items()}
    latest = {topic: {"0": after + 5} for topic, (_, after) in read.items()}
    rows = sum(after - first for first, after in read.values())
    source = {"startOffset": begin, "endOffset": end, "latestOffset": latest, "numInputRows": rows}
    return {
        "batchId": number,
        "sources": [source],
        "sink": {"numOutputRows": -1, "metrics": dict(written or {})},
        "durationMs": {"addBatch": 1},
    }
