"""Kills around the commits of an archive cause no loss and no duplicates."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.archive_tables import record, write_batch
from tests.support import Headwater

from headwater.jobs.data_synchronization_job import main
from headwater.kafka import RecordProducer, read_topic
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges
from headwater.testing.fixtures import TopicMaker

EVERYTHING = {0: OffsetRanges.of((0, 1000)), 1: OffsetRanges.of((0, 1000))}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_job_killed_before_and_after_its_commit_archives_each_record_once(
    broker: Settings,
    spark: SparkSession,
    headwater: Headwater,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=2)
    with RecordProducer(broker.kafka) as producer:
        for number in range(200):
            value = b'{"event_time": "2025-09-04T%02d:00:00"}' % (number % 3)
            producer.send(topic, value, b"key", partition=number % 2)
    journal = broker.home_dir / "faults.journal"
    journal.unlink(missing_ok=True)
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    options = ["--input-topic", topic, "--table", table, "--checkpoint", checkpoint]
    command = ["--available-now", "--quiet", *options, "--max-records-per-batch", "80"]
    # The first batch is killed before its commit; the second after it, before Spark's commit.
    for point in ("before_archive_commit", "after_archive_commit@2"):
        name, _, times = point.partition("@")
        faults = {"HEADWATER_TESTING__FAULT_POINTS": f"{name}=kill@{times or 1}"}
        done = headwater("run", "data_synchronization_job", *command, **faults)
        assert done.returncode == -9, done.stderr
    fired = [line.split()[:2] for line in journal.read_text().splitlines()]
    assert fired == [["before_archive_commit", "kill"], ["after_archive_commit", "kill"]]
    main.main(command, standalone_mode=False, obj=broker)

    archive = Archive(Path(table))
    in_kafka = sorted(read_topic(topic, broker.kafka), key=lambda each: each.address)
    assert list(archive.read(EVERYTHING)) == in_kafka
    assert sum(file.rows for file in archive.files) == len(in_kafka) == 200
    # The batch that was already written made no commit.
    assert archive.version == 3


def test_a_compaction_killed_before_its_commit_leaves_the_archive_as_it_was(
    headwater: Headwater, headwater_settings: Settings, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    for begin in range(0, 30, 10):
        write_batch(table, [record(n) for n in range(begin, begin + 10)], hours=(7, 8))
    before = list(Archive(table).read(EVERYTHING))
    command = ("archive", "compact", "--table", str(table))
    faults = {"HEADWATER_TESTING__FAULT_POINTS": "before_archive_compaction=kill"}
    assert headwater(*command, **faults).returncode == -9
    assert len(Archive(table).files) == 6
    assert list(Archive(table).read(EVERYTHING)) == before
    assert headwater(*command).returncode == 0
    assert len(Archive(table).files) == 2
    assert list(Archive(table).read(EVERYTHING)) == before
