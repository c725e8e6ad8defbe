"""Events as a test finds them: in the catalog, or in the spool of a home without one; and what
Spark tells of the batches that they are made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.catalog_support import Catalog

from headwater.openlineage.spool.files import decode_line, segments_of
from headwater.settings import Settings

Event = dict[str, Any]


def telling(settings: Settings, catalog: Catalog, **lineage: Any) -> Settings:
    """The same settings for jobs that tell this catalog."""
    changed = {
        "catalog": settings.catalog.model_copy(update={"url": catalog.url}),
        "lineage": settings.lineage.model_copy(update=lineage),
    }
    return settings.model_copy(update=changed)


def told(catalog: Catalog, job: str) -> list[Event]:
    """What the catalog has heard of a job, in the order of time."""
    found = catalog.get("/events/lineage?limit=1000&sortDirection=asc")["events"]
    return [event for event in found if event["job"]["name"] == job]


def spooled(settings: Settings, job: str) -> list[Event]:
    """What waits of a job, in the order of time."""
    files = [path.read_bytes() for path in segments_of(settings.spool_dir)]
    lines = [line for content in files for line in content.splitlines(keepends=True)]
    events = [json.loads(text) for line in lines if (text := decode_line(line))]
    mine = [event for event in events if event["job"]["name"] == job]
    return sorted(mine, key=lambda event: str(event["eventTime"]))


def states(events: list[Event], run_id: str | None = None) -> list[str]:
    return [e["eventType"] for e in events if run_id in (None, e["run"]["runId"])]


def names(event: Event, side: str) -> list[str]:
    return [each["name"] for each in event[side]]


def columns(event: Event) -> dict[str, dict[str, set[str]]]:
    """Of the first output: output field -> input field -> kinds of dependency."""
    fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]
    return {
        output: {
            f"{one['name']}:{one['field']}": {way["subtype"] for way in one["transformations"]}
            for one in each["inputFields"]
        }
        for output, each in fields.items()
    }


def batch(
    number: int, read: Mapping[str, tuple[int, int]], written: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What Spark tells: of each topic the first offset, and the one behind the last."""
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
