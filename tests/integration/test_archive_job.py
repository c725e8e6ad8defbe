"""The archive of a real topic, and errors if the two do not belong together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lineage_events import columns, names, spooled
from tests.lines.environments import needs_delta
from tests.stamped import delete_before, stamped, write, write_transaction
from tests.support import Headwater

from headwater.errors import ArchiveError, ArchiveGapError, CheckpointError, InputError
from headwater.jobs.data_synchronization_job import main
from headwater.kafka import RecordProducer, create_topic, delete_topics, read_topic
from headwater.model import Address, Header, Record
from headwater.settings import Settings
from headwater.storage.archive.contract import COLUMNS, archive_path
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import RecordState, trace

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_delta]

BROKEN = b'{"event_time": 1725433200000, "n": NaN'
ANYTHING: Sequence[tuple[bytes | None, Sequence[Header]]] = (
    (b'{"event_time": "2025-09-04T07:59:59.999999", "page": "home"}', ()),
    (b'{"event_time": "2025-09-04T08:00:00+02:00"}', [("a", b"1"), ("a", None), ("b", b"\xff")]),
    (b'{"event_time": "1969-12-31"}', ()),
    (b'{"page": {"event_time": "2001-01-01T00:00:00"}, "event_time": "2025-02-28 23:59:59Z"}', ()),
    (b' {"a": 1, "b" : "\\"", "event_time":"2024-02-29T00:30:00.1-01:30"}', ()),
    # Without a readable event time.
    (b'{"event_time": "12:30"}', ()),
    (BROKEN, ()),
    (b"\xff\xfe no text", ()),
    (b"", ()),
    (None, ()),
)


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    archive = broker.archive.model_copy(
        update={"folder": tmp_path / "archive", "compact_at_files": 4}
    )
    return broker.model_copy(update={"archive": archive})


def run_job(settings: Settings, topic: str, tmp_path: Path, *more: str) -> None:
    options = ["--available-now", "--quiet", "--checkpoint", str(tmp_path / "checkpoint")]
    main.main(["--input-topic", topic, *options, *more], standalone_mode=False, obj=settings)


def archived(topic: str, settings: Settings) -> list[Record]:
    everything = OffsetRanges.of((0, 10_000))
    return list(Archive.open(topic, settings).read({0: everything, 1: everything}))


def in_kafka(topic: str, settings: Settings) -> list[Record]:
    return sorted(read_topic(topic, settings.kafka), key=lambda record: record.address)


def send(topic: str, number: int, settings: Settings, partition: int = 0) -> None:
    with RecordProducer(settings.kafka) as producer:
        for minute in range(number):
            value = b'{"event_time": "2025-09-04T07:%02d:00"}' % minute
            producer.send(topic, value, b"key", partition=partition)


@pytest.mark.lines
def test_every_record_is_archived_unchanged_under_its_hour(
    spark: SparkSession, settings: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic()
    with RecordProducer(settings.kafka) as producer:
        for value, headers in ANYTHING:
            producer.send(topic, value, None, headers=headers, partition=0)
    send(topic, 3, settings, partition=1)
    run_job(settings, topic, tmp_path)
    assert archived(topic, settings) == in_kafka(topic, settings)
    last = spooled(settings, "data_synchronization")[-1]
    assert (last["eventType"], names(last, "inputs")) == ("COMPLETE", [topic])
    assert names(last, "outputs") == [str(archive_path(topic, settings))]
    assert last["run"]["facets"]["headwater_progress"]["rowsOut"] == len(ANYTHING) + 3
    assert columns(last)["offset"] == {f"{topic}:offset": {"IDENTITY"}}

    table = spark.read.format("delta").load(str(archive_path(topic, settings)))
    assert table.columns == list(COLUMNS)
    rows = table.where("partition = 0").orderBy("offset").collect()
    hours = [tuple(row[name] for name in ("year", "month", "day", "hour")) for row in rows]
    assert hours[:3] == [(2025, 9, 4, 7), (2025, 9, 4, 6), (1969, 12, 31, 0)]
    assert hours[3:5] == [(2025, 2, 28, 23), (2024, 2, 29, 2)]
    for row, hour in zip(rows[5:], hours[5:], strict=True):
        time = row["timestamp"]
        assert hour == (time.year, time.month, time.day, time.hour)
    assert [row["event_time_unreadable"] for row in rows] == [False] * 5 + [True] * 5
    assert [row["value"] for row in rows[6:]] == [BROKEN.decode(), None, "", None]
    assert [row["value_bytes"] for row in rows[6:]] == [None, b"\xff\xfe no text", None, None]


def test_each_batch_is_a_version_and_small_files_are_compacted(
    spark: SparkSession,
    settings: Settings,
    headwater: Headwater,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=2)
    path = archive_path(topic, settings)
    for batch in range(3):
        send(topic, 4, settings)
        run_job(settings, topic, tmp_path)
        if batch == 0:
            shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
        versions = sorted(log.name for log in (path / "_delta_log").glob("*.json"))
        assert versions == [f"{version:020}.json" for version in range(batch + 2)]
    send(topic, 2, settings)
    # Transaction markers and aborted records have offsets.
    write_transaction(topic, [b"{}"] * 2, settings)
    write_transaction(topic, [b"{}"] * 3, settings, abort=True)
    # Small batches, so that there is a compaction between them.
    run_job(settings, topic, tmp_path, "--max-records-per-batch", "3")
    assert archived(topic, settings) == in_kafka(topic, settings)
    assert len(list(path.rglob("joined-*.parquet"))) >= 1
    rows = spark.read.format("delta").load(str(path))
    assert rows.count() == 16
    coverage = Archive.open(topic, settings).coverage()[0]
    assert (coverage.gaps, coverage.holes.ranges()) == ([], [(16, 20)])

    # Without the checkpoint the job continues at the end of the archive.
    shutil.rmtree(tmp_path / "checkpoint")
    send(topic, 2, settings, partition=1)
    send(topic, 1, settings)
    run_job(settings, topic, tmp_path)
    assert archived(topic, settings) == in_kafka(topic, settings)
    # A restored older checkpoint: its batch starts at offsets that are archived.
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "older", tmp_path / "checkpoint")
    send(topic, 1, settings)
    run_job(settings, topic, tmp_path)
    assert archived(topic, settings) == in_kafka(topic, settings)
    send(topic, 5, settings, partition=1)
    folder = {"HEADWATER_ARCHIVE__FOLDER": str(tmp_path / "archive")}
    status = headwater("archive", "status", topic, "--json", **folder)
    assert [
        [line[name] for name in ("partition", "first", "last", "records", "holes", "gaps", "lag")]
        for line in json.loads(status.stdout)
    ] == [[0, 0, 22, 18, 5, [], 0], [1, 0, 1, 2, 0, [], 5]]


@pytest.mark.lines
def test_an_expired_record_is_traced_from_the_archive(
    spark: SparkSession, settings: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    send(source, 3, settings)
    write(output, [stamped(f"{source}/0@1"), stamped(f"{source}/0@7")], settings)
    for topic, folder in ((source, tmp_path / "a"), (output, tmp_path / "b")):
        run_job(settings, topic, folder)
        delete_before(topic, 2, settings)
    node = trace(Address(output, 0, 0), settings, values=True)
    (parent,) = node.parents
    assert (node.state, node.job_name) == (RecordState.ARCHIVED, "job")
    assert (parent.state, parent.job_name) == (RecordState.ARCHIVED, None)
    assert parent.value == b'{"event_time": "2025-09-04T07:01:00"}'
    (never,) = trace(Address(output, 0, 1), settings).parents
    assert never.state is RecordState.UNVERIFIED


def test_records_that_were_deleted_before_they_were_archived_are_reported(
    spark: SparkSession,
    settings: Settings,
    headwater: Headwater,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=1)
    send(topic, 3, settings)
    run_job(settings, topic, tmp_path)
    send(topic, 4, settings)
    delete_before(topic, 5, settings)
    with pytest.raises(ArchiveGapError, match="@3 to @4 are gone from the topic") as caught:
        run_job(settings, topic, tmp_path)
    assert "--allow-gaps" in (caught.value.hint or "")
    run_job(settings, topic, tmp_path, "--allow-gaps")
    assert Archive.open(topic, settings).coverage()[0].gaps == [(3, 4)]
    facets = spooled(settings, "data_synchronization")[-1]["run"]["facets"]
    (lost,) = facets["headwater_gaps"]["lost"]
    assert (lost["topic"], lost["first"], lost["last"]) == (topic, 3, 4)
    folder = {"HEADWATER_ARCHIVE__FOLDER": str(tmp_path / "archive")}
    read = headwater("archive", "read", topic, "--first", "2", "--last", "5", **folder)
    assert read.returncode == 1
    assert len(read.stdout.splitlines()) == 2
    assert f"not archived: {topic}/0 @3..4" in read.stderr
    # A known gap does not stop the job.
    send(topic, 1, settings)
    run_job(settings, topic, tmp_path)
    assert Archive.open(topic, settings).coverage()[0].last == 7


def test_a_topic_archive_or_checkpoint_of_another_job_is_refused(
    spark: SparkSession, settings: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic, other = make_topic(), make_topic("other")
    path = archive_path(topic, settings)
    send(topic, 3, settings)
    run_job(settings, topic, tmp_path)
    with pytest.raises(ArchiveError, match=f"is the archive of '{topic}'"):
        run_job(settings, other, tmp_path / "elsewhere", "--table", str(path))
    shutil.move(path, tmp_path / "kept")
    with pytest.raises(CheckpointError, match=r"has read .* up to 3, but the archive"):
        run_job(settings, topic, tmp_path)
    shutil.rmtree(path)
    shutil.move(tmp_path / "kept", path)
    # Longer than before, so that offsets do not show it.
    delete_topics([topic], settings.kafka)
    create_topic(topic, 2, settings.kafka)
    send(topic, 5, settings)
    with pytest.raises(ArchiveError, match="the topic was recreated"):
        run_job(settings, topic, tmp_path)
    foreign = tmp_path / "foreign"
    spark.range(3).write.format("delta").save(str(foreign))
    with pytest.raises(ArchiveError, match="is a Delta table, but not an archive of format 1"):
        run_job(settings, other, tmp_path / "elsewhere", "--table", str(foreign))
    with pytest.raises(InputError, match="not a field name"):
        run_job(settings, other, tmp_path, "--event-time-field", "a') or ('")
