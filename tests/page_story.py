"""Test data for the page: the events and records of the demo's pipeline.

Records in Kafka and events are the same that the jobs would write.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.catalog_support import run_event, run_id

from headwater.kafka import RecordProducer, create_topic
from headwater.model import Address, Lineage
from headwater.model.header import STAMP_HEADERS, JobStamp, encode
from headwater.settings import Settings

KAFKA = "kafka://localhost:9092"
# Tables in a folder, unlike topics.
FILES = "file"
JOBS = "headwater"
RECORDS = 12
MARKUP = '<img src=x onerror="document.title=1">'
LONG = "a_very_long_name_" * 118
RIGHT_TO_LEFT = "visits\u202egnirts\u202c"
FIELDS = {
    "visits": ["visit_id", "event_time", "user_id", "keep_private", "page", "context"],
    "visits-decorated": ["visit_id", "event_time", "user_id", "page", "technical"],
    "visits-reduced": ["visit_id", "event_time", "user_id", "page"],
    "ads": ["ad_id", "page", "display_time", "campaign_name"],
    "visits-enriched": ["visit_id", "visit_page", "display_time", "campaign_name"],
    "reports.daily": ["day", "page", "visits"],
}

Send = Callable[..., None]
Json = dict[str, Any]


def write_records(settings: Settings, prefix: str) -> None:
    """Write visits, and a decorated and a reduced visit derived from each, to one partition."""
    topics = [f"{prefix}{name}" for name in ("visits", "visits-decorated", "visits-reduced")]
    for topic in topics:
        create_topic(topic, 1, settings.kafka)
    jobs = [None, "visits_decorator", "visits_reducer"]
    with RecordProducer(settings.kafka) as producer:
        for topic, source, job in zip(topics, [None, *topics], jobs, strict=False):
            for offset in range(RECORDS):
                headers = []
                if job and source:
                    parents = (Address(source, 0, offset),)
                    stamp = JobStamp(job, "v1.0.0", offset // 4).headers(STAMP_HEADERS)
                    lineage = Lineage(run_id(job), parents, 0, 0)
                    headers = [*stamp, ("lineage", encode(lineage))]
                value = {
                    "visit_id": f"visit-{offset}",
                    "event_time": f"2026-11-16T06:00:{offset:02d}+00:00",
                    "user_id": f"user-{offset % 3}",
                    "page": ["index", "contact", "page_7"][offset % 3],
                }
                producer.send(topic, json.dumps(value).encode(), b"k", headers=headers, partition=0)


def send_story(send: Send, now: datetime, prefix: str = "") -> None:
    """Send the events of the pipeline over the last day, with a failed job."""
    visits, decorated, reduced = (
        f"{prefix}{name}" for name in ("visits", "visits-decorated", "visits-reduced")
    )
    _stream(send, now, "visits_decorator", 30, [visits], [decorated], batches=6)
    _stream(send, now, "visits_reducer", 20, [decorated], [reduced], batches=5)
    _stream(send, now, "data_synchronization", 10, [visits], ["/archive/visits"], batches=0)
    _stream(send, now, "lineage_index", 5, [decorated, reduced], ["/index/edges"], batches=0)
    for number in range(9):
        _report(send, now - timedelta(hours=2 * (9 - number)), number)
    failed_run(send, now - timedelta(minutes=4), prefix)
    odd_names(send, now)


def failed_run(send: Send, at: datetime, prefix: str = "", name: str = "enrichment") -> None:
    """Send the events of a failed join."""
    error = {
        "message": "Cannot write to visits-enriched: the record is 1048899 bytes, more than fits",
        "programmingLanguage": "PYTHON",
        "stackTrace": 'Traceback (most recent call last):\n  File "job.py", line 12, in write\n',
    }
    facets = {"errorMessage": {**_facet(), **error}}
    inputs = [_dataset(f"{prefix}visits"), _dataset("ads")]
    outputs = [_dataset("visits-enriched", _columns(f"{prefix}visits", "ads"))]
    common: Json = {"job": "visits_ads_enrichment", "namespace": JOBS, "run": run_id(name)}
    stream = {"jobType": {**_facet(), "processingType": "STREAMING", "integration": "SPARK"}}
    send(
        run_event(
            "START", **common, at=_text(at), inputs=inputs, outputs=outputs, job_facets=stream
        )
    )
    send(
        run_event(
            "FAIL",
            **common,
            at=_text(at + timedelta(seconds=41)),
            inputs=inputs,
            outputs=outputs,
            run_facets=facets,
            job_facets=stream,
        )
    )


def odd_names(send: Send, now: datetime) -> None:
    """Send events with markup, long and right-to-left names."""
    names = [MARKUP, LONG, RIGHT_TO_LEFT]
    for name in names:
        send(
            run_event(
                job=name,
                namespace="odd <b>names</b>",
                at=_text(now - timedelta(days=2)),
                inputs=[{"namespace": "odd", "name": f"{name} in", "facets": {}}],
                outputs=[{"namespace": "odd", "name": name, "facets": {}}],
            )
        )


def many_events(now: datetime, jobs: int) -> list[Json]:
    """Events of a tree of connected jobs, each with its own table, and one root."""
    return [
        run_event(
            "FAIL" if number % 17 == 5 else "COMPLETE",
            job=f"step_{number:04d}",
            namespace="many",
            at=_text(now - timedelta(minutes=number)),
            inputs=[
                _many((number - 1) // 3 if number else "root"),
                *([_many(number - 2)] * (number % 9 == 4)),
            ],
            outputs=[_many(number)],
        )
        for number in range(jobs)
    ]


def _many(number: object) -> Json:
    return {"namespace": "many", "name": f"table_{number}", "facets": {}}


def _stream(
    send: Send,
    now: datetime,
    job: str,
    hours: float,
    inputs: list[str],
    outputs: list[str],
    *,
    batches: int,
) -> None:
    began = now - timedelta(hours=hours)
    common: Json = {
        "job": job,
        "namespace": JOBS,
        "run": run_id(job),
        "inputs": [_dataset(name) for name in inputs],
        "outputs": [_dataset(name, _columns(*inputs)) for name in outputs],
        "job_facets": {
            "jobType": {**_facet(), "processingType": "STREAMING", "integration": "SPARK"},
            "documentation": {**_facet(), "description": f"Runs {job}_job of the demo."},
        },
    }
    send(run_event("START", **common, at=_text(began)))
    for batch in range(batches):
        first, last = batch * 4, batch * 4 + 3
        offsets = {
            "batch": batch,
            "jobVersion": "v1.0.0",
            "inputs": [_range(inputs[0], first, last)],
            "outputs": [_range(outputs[0], first, last)],
        }
        progress = {"rowsIn": last + 1, "rowsOut": last + 1, "rowsWithLineage": last + 1, "lag": 7}
        facets = {
            "headwater_offsets": {**_facet(), **offsets},
            "headwater_progress": {**_facet(), **progress},
        }
        at = now - timedelta(seconds=20 * (batches - batch))
        send(run_event("RUNNING", **common, at=_text(at), run_facets=facets))


def _report(send: Send, at: datetime, number: int) -> None:
    bad = number == 5
    nulls = {"page": {"nullCount": 3 * number % 7}, "visits": {"nullCount": 0}}
    assertions = [
        {"assertion": "not_null", "column": "page", "success": not bad},
        {"assertion": "row_count_above_zero", "success": True},
    ]
    facets = {
        "schema": _schema("reports.daily", extra=["device"] if number > 6 else []),
        "columnLineage": _columns("/archive/visits", names=["day", "page", "visits"]),
        "dataQualityMetrics": {**_facet(), "rowCount": 900 + 40 * number, "columnMetrics": nulls},
        "dataQualityAssertions": {**_facet(), "assertions": assertions},
    }
    written = {"outputStatistics": {**_facet(), "rowCount": 900 + 40 * number, "size": 70_000}}
    output = {
        "namespace": "iceberg",
        "name": "reports.daily",
        "facets": facets,
        "outputFacets": written,
    }
    source = f"https://example.com/reports/{'v2' if number > 6 else 'v1'}.py"
    common: Json = {
        "job": "daily_report",
        "namespace": JOBS,
        "run": run_id(f"report-{number}"),
        "inputs": [_dataset("/archive/visits")],
        "outputs": [output],
        "job_facets": {"sourceCodeLocation": {**_facet(), "type": "git", "url": source}},
    }
    send(run_event("START", **common, at=_text(at)))
    end = at + timedelta(seconds=90 + 25 * (number % 4))
    send(run_event("FAIL" if bad else "COMPLETE", **common, at=_text(end)))


def _namespace(name: str) -> str:
    return FILES if name.startswith("/") else KAFKA


def _dataset(name: str, columns: Json | None = None) -> Json:
    """A topic, or a table if the name is a folder."""
    known = next((key for key in FIELDS if name.endswith(key)), None)
    facets: Json = {"schema": _schema(known)} if known else {}
    if columns:
        facets["columnLineage"] = columns
    return {"namespace": _namespace(name), "name": name, "facets": facets}


def _schema(name: str, extra: list[str] | None = None) -> Json:
    fields = [*FIELDS[name], *(extra or [])]
    return {**_facet(), "fields": [{"name": each, "type": "string"} for each in fields]}


def _columns(*inputs: str, names: list[str] | None = None) -> Json:
    """Each column is derived from the column of the same name in the first input, if it exists."""
    known = next((key for key in FIELDS if inputs[0].endswith(key)), "visits")
    fields = {}
    for name in names or ["visit_id", "event_time", "user_id", "page"]:
        source = name if name in FIELDS[known] else "event_time"
        subtype = "IDENTITY" if source == name else "TRANSFORMATION"
        transformations = [{"type": "DIRECT", "subtype": subtype}]
        column = {"namespace": _namespace(inputs[0]), "name": inputs[0], "field": source}
        fields[name] = {"inputFields": [{**column, "transformations": transformations}]}
    return {**_facet(), "fields": fields}


def _range(topic: str, first: int, last: int) -> Json:
    return {"namespace": KAFKA, "topic": topic, "partition": 0, "first": first, "last": last}


def _facet() -> Json:
    return {
        "_producer": "https://example.com/tests",
        "_schemaURL": "https://example.com/schema.json",
    }


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
