"""What the catalog knows of a streaming job, and how it hears of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import Catalog

from headwater import LineageJob
from headwater.jobs.visits_reducer_job import reduce_visits
from headwater.kafka import RecordProducer
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

VISIT = {"visit_id": "v", "event_time": "2026-01-01T00:00:00Z", "user_id": "u", "page": "home"}


@pytest.fixture
def told(broker: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    """Settings whose jobs tell the catalog of this module."""
    changed = {
        "catalog": broker.catalog.model_copy(update={"url": catalog.url}),
        "lineage": broker.lineage.model_copy(
            update={"spool": tmp_path / "spool", "namespace": "tests", "team": "web"}
        ),
    }
    return broker.model_copy(update=changed)


def visits(topic: str, settings: Settings, *values: bytes) -> None:
    with RecordProducer(settings) as producer:
        for value in values or [json.dumps(VISIT).encode()] * 5:
            producer.send(topic, value, b"home", partition=0)


def events_of(catalog: Catalog, job: str) -> list[dict[str, Any]]:
    found = catalog.get("/events/lineage?limit=1000&sortDirection=asc")["events"]
    return [event for event in found if event["job"]["name"] == job]


def test_a_job_is_one_run_with_records_columns_and_counts(
    told: Settings, catalog: Catalog, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("visits", partitions=1), make_topic("reduced", partitions=1)
    visits(source, told, *[json.dumps(VISIT).encode()] * 5, b"not json")
    job = LineageJob("reducer", version="v7", settings=told, checkpoint=tmp_path / "checkpoint")
    job.write(reduce_visits(job.read(source)), output, trigger={"availableNow": True})

    start, end = events_of(catalog, "reducer")
    print(json.dumps(start, indent=1))
    print(json.dumps(end, indent=1))
