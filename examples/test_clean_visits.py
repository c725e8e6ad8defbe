"""`pytest examples`: the job on a real broker and a real Spark, started by Headwater's fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.clean_visits import clean

from headwater import LineageJob, Settings
from headwater.testing import RecordProducer, assert_lineage, read_topic
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

VISITS = (
    b'{"visit_id": "1", "event_time": "2024-01-01T08:00:00+00:00", "page": "home"}',
    b'{"visit_id": "2", "event_time": "2024-01-01T08:01:00+00:00", "keep_private": true}',
    b"{........",
)


def test_a_clean_visit_names_the_visit_that_it_was_made_from(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("visits", partitions=1), make_topic("clean", partitions=1)
    with RecordProducer(broker.kafka) as producer:
        for visit in VISITS:
            producer.send(source, visit, b"key")
    job = LineageJob("clean_visits", settings=broker, checkpoint=tmp_path / "checkpoint")
    job.write(clean(job.read(source)), target, trigger={"availableNow": True})
    (record,) = read_topic(target, broker.kafka)
    assert_lineage(record, parents=[f"{source}/0@0"], job_name="clean_visits")
    (dead,) = read_topic(f"{target}-dead-letter", broker.kafka)
    assert_lineage(dead, parents=[f"{source}/0@2"])
