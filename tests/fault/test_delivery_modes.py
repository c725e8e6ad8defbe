"""Each delivery mode under faults of Kafka keeps the guarantees in docs/concepts/delivery.md."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from pyspark.sql import SparkSession
from tests.copies import copy, in_thread, wait_for

from headwater import LineageJob
from headwater.delivery.modes import MODE_NAMES
from headwater.errors import QueryFailedError
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.service import down, up
from headwater.service.managed import ServiceState
from headwater.settings import Settings
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker, local_settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

RECORDS = 60_000
# Enough batches that the fastest mode does not finish before the slowest has started.
BATCH = RECORDS // 12
# Longer than `broker.session.timeout.ms` (9 s), after which the controller fences the broker.
PAUSE_SECONDS = 12
# A producer that is not idempotent resends requests without a response; and of several requests in
# flight, a broker recovers only the last one after an unclean shutdown.
MAY_DUPLICATE = {"batched", "idempotent"}


@dataclass
class OwnBroker:
    """A broker that only the tests of this module use and break."""

    settings: Settings

    def start(self) -> psutil.Process:
        state: ServiceState
        (state,) = up(["kafka"], self.settings)
        assert state.pid is not None
        return psutil.Process(state.pid)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    settings = local_settings(tmp_path_factory.mktemp("own-broker"))
    yield OwnBroker(settings)
    down(settings, wipe=True)


@pytest.fixture(autouse=True)
def stop_queries(spark: SparkSession) -> Iterator[None]:
    """A query that a failed test leaves running would disturb the following ones."""
    yield
    for query in spark.streams.active:
        query.stop()


def test_a_broker_killed_and_then_paused_breaks_no_guarantee_of_a_mode(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    process = own_broker.start()
    settings = own_broker.settings
    create_topic("in", 2, settings.kafka)
    ledger = Ledger("in", settings)
    ledger.write(RECORDS)
    # All modes at once, each with its own output, so that the faults affect all of them.
    for mode in MODE_NAMES:
        create_topic(mode, 2, settings.kafka)
    work = {
        mode: in_thread(copy, mode, "in", mode, settings, tmp_path / mode, BATCH)
        for mode in MODE_NAMES
    }
    for mode, thread in work.items():
        wait_for(1, mode, settings, thread)
    hit = {mode for mode, thread in work.items() if thread.is_alive()}
    process.kill()
    process.wait(10)
    again = own_broker.start()
    assert again.pid != process.pid
    hit_twice = {mode for mode, thread in work.items() if thread.is_alive()}
    again.send_signal(signal.SIGSTOP)
    try:
        time.sleep(PAUSE_SECONDS)
        # Nothing has finished or failed while the broker was paused.
        assert hit_twice == {mode for mode, thread in work.items() if thread.is_alive()}
    finally:
        again.send_signal(signal.SIGCONT)
    for mode, thread in work.items():
        thread.finish(180)
        report = ledger.check(mode)
        assert (report.lost, report.out_of_order, report.damaged, report.unknown) == (0, 0, 0, 0)
        if mode not in MAY_DUPLICATE:
            assert report.duplicates == 0, mode
    assert hit == hit_twice == set(MODE_NAMES), "a copy ended before the faults"


def fill_with_one_too_large(settings: Settings, source: str, target: str) -> None:
    limit = ConfigEntry("max.message.bytes", "10000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, target, incremental_configs=[limit])
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(10)
    # Random bytes, because a compressed record could be below the limit.
    large = random.Random(17).randbytes(20_000)  # noqa: S311 - not a secret
    with RecordProducer(settings.kafka) as producer:
        for value in (b"before", large, b"after"):
            producer.send(source, value, b"key", partition=0)


@pytest.mark.parametrize("mode", MODE_NAMES)
def test_a_record_that_kafka_rejects_stops_the_job_with_its_address(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    fill_with_one_too_large(broker, source, target)
    with pytest.raises(QueryFailedError, match="RecordTooLargeException") as failed:
        copy(mode, source, target, broker, tmp_path / "checkpoint", BATCH)
    if mode != "transactional":
        assert f"{source}/0@1" in failed.value.message
    found = [record.value for record in read_topic(target, broker.kafka)]
    if mode == "individual":
        # Nothing after the failed record was sent.
        assert found == [b"before"]
    if mode == "transactional":
        assert found == []


@pytest.mark.parametrize("mode", ["individual", "batched", "idempotent"])
def test_a_record_that_kafka_rejects_can_go_to_the_dead_letter_topic(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    fill_with_one_too_large(broker, source, target)
    job = LineageJob("copy", settings=broker, checkpoint=tmp_path / "checkpoint", delivery=mode)
    rows = job.read(source).select("key", "value", "lineage")
    job.write(rows, target, trigger={"availableNow": True}, on_failure="dead-letter")
    assert [record.value for record in read_topic(target, broker.kafka)] == [b"before", b"after"]
    (dead,) = read_topic(f"{target}-dead-letter", broker.kafka)
    assert dead.key == b"key"
    assert f'"address":"{source}/0@1","size":20000'.encode() in (dead.value or b"")
    headers = dict(dead.headers)
    assert headers["__connect.errors.offset"] == b"1"
    assert b"RecordTooLargeException" in (headers["__connect.errors.exception.class.name"] or b"")
