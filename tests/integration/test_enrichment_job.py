"""The join on a real broker and a real Spark, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.joins import RunningJoin, dropped, watermark

from headwater.rowlineage.headers import origin_of
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def join(
    broker: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path
) -> RunningJoin:
    return RunningJoin(broker, spark, make_topic, tmp_path / "checkpoint")


def test_the_script_gives_its_rows_at_its_moments(join: RunningJoin) -> None:
    with join.running() as query:
        join.visit(("visit-1", "08:18:00", "home"), ("visit-2", "08:20:00", "home"))
        query.processAllAvailable()
        assert join.new_values() == []

        join.ad(("home", "08:18:15", "supermarket"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-1","event_time":"2024-01-01T08:18:00.000Z","visit_page":"home",'
            '"page":"home","display_time":"2024-01-01T08:18:15.000Z","campaign_name":"supermarket"}'
        ]
        assert watermark(query) == "08:08:15"

        join.visit(("visit-3", "08:58:00", "category1"), ("visit-4", "09:00:00", "category2"))
        query.processAllAvailable()
        assert join.new_values() == []

        join.ad(("category3", "09:00:15", "supermarket"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-2","event_time":"2024-01-01T08:20:00.000Z","visit_page":"home"}'
        ]
        assert watermark(query) == "08:50:00"

        join.ad(("category4", "09:10:30", "internet provider"))
        query.processAllAvailable()
        join.visit(("visit-5", "08:58:00", "category4"))
        query.processAllAvailable()
        assert join.new_values() == []

        join.visit(("visit-6", "09:09:00", "category4"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-6","event_time":"2024-01-01T09:09:00.000Z",'
            '"visit_page":"category4","page":"category4",'
            '"display_time":"2024-01-01T09:10:30.000Z","campaign_name":"internet provider"}'
        ]
        assert watermark(query) == "08:59:00"

        join.visit(("visit-100", "10:09:00", "category6"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-3","event_time":"2024-01-01T08:58:00.000Z",'
            '"visit_page":"category1"}',
            '{"visit_id":"visit-5","event_time":"2024-01-01T08:58:00.000Z",'
            '"visit_page":"category4"}',
        ]
        assert watermark(query) == "09:00:30"
        assert dropped(query) == 0

    found = {}
    for record in join.records():
        lineage = origin_of(record).lineage
        assert lineage is not None
        found[record.key] = [str(parent) for parent in lineage.parents]
    assert found == {
        b"visit-1": [f"{join.visits}/0@0", f"{join.ads}/0@0"],
        b"visit-2": [f"{join.visits}/0@1"],
        b"visit-6": [f"{join.visits}/0@5", f"{join.ads}/0@2"],
        b"visit-3": [f"{join.visits}/0@2"],
        b"visit-5": [f"{join.visits}/0@4"],
    }
    assert join.records("-late") == join.records("-dead-letter") == []
