"""Three brokers, of which one fails after the other: each delivery mode keeps its guarantees."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata
from pyspark.sql import SparkSession
from tests.copies import InThread, copy, in_thread, wait_for
from tests.waiting import wait_until

from headwater.delivery.modes import MODE_NAMES
from headwater.kafka import create_topic
from headwater.service import down, up
from headwater.service.brokers import LocalKafka
from headwater.settings import Settings
from headwater.testing import Ledger
from headwater.testing.fixtures import local_settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(400)]

RECORDS = 40_000
BATCH = 1_000
# Longer than `broker.session.timeout.ms` (9 s), after which another broker becomes the leader.
PAUSE_SECONDS = 12


class Cluster:
    """Three brokers that only the tests of this module use and break."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.faults: list[str] = []
        # A paused broker accepts requests and never responds: the client takes another one then.
        client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": settings.bootstrap_servers,
            "socket.timeout.ms": 3000,
        }
        self._admin = AdminClient(client)

    def start(self) -> None:
        """Start the brokers that are not running."""
        for _ in up(["kafka"], self.settings):
            pass

    def partitions(self, topic: str) -> list[PartitionMetadata]:
        """The partitions of a topic, as a broker that responds has them."""

        def read() -> list[PartitionMetadata] | None:
            with suppress(KafkaException):
                found = self._admin.list_topics(topic, timeout=5).topics[topic].partitions
                return [found[number] for number in sorted(found)]
            return None

        return wait_until(read, 60, f"metadata of {topic}")

    def leader(self, topic: str) -> int:
        return int(self.partitions(topic)[0].leader)

    def in_sync(self, topic: str) -> bool:
        return all(len(each.isrs) == 3 for each in self.partitions(topic))

    def process(self, node: int) -> psutil.Process:
        process = LocalKafka(self.settings).brokers[node - 1].process()
        assert process is not None
        return process

    def kill_leader(self, topic: str) -> None:
        node = self.leader(topic)
        process = self.process(node)
        process.kill()
        process.wait(10)
        wait_until(lambda: self.leader(topic) not in (node, -1), 60, "another leader")
        self.faults.append(f"killed {node}, leader of {topic}")

    def pause_leader(self, topic: str) -> None:
        node = self.leader(topic)
        process = self.process(node)
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(PAUSE_SECONDS)
            wait_until(lambda: self.leader(topic) not in (node, -1), 60, "another leader")
        finally:
            process.send_signal(signal.SIGCONT)
        self.faults.append(f"paused {node}, leader of {topic}")

    def restart(self, node: int) -> None:
        LocalKafka(self.settings).brokers[node - 1].stop()
        self.start()
        self.faults.append(f"restarted {node}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = local_settings(tmp_path_factory.mktemp("three-brokers") / "home", brokers=3)
    try:
        cluster = Cluster(settings)
        cluster.start()
        yield cluster
    finally:
        down(settings, wipe=True)


@pytest.fixture(autouse=True)
def stop_queries(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


def started(cluster: Cluster, prefix: str, folder: Path) -> tuple[Ledger, dict[str, InThread]]:
    """A numbered input, and a copy of it for each mode, all of which have begun to write."""
    settings = cluster.settings
    source = f"{prefix}-in"
    create_topic(source, 2, settings.kafka)
    ledger = Ledger(source, settings)
    ledger.write(RECORDS)
    copies = {}
    for mode in MODE_NAMES:
        target = f"{prefix}-{mode}"
        create_topic(target, 2, settings.kafka)
        copies[mode] = in_thread(copy, mode, source, target, settings, folder / mode, BATCH)
    for mode, thread in copies.items():
        wait_for(1, f"{prefix}-{mode}", settings, thread)
    return ledger, copies


def running(copies: dict[str, InThread]) -> set[str]:
    return {mode for mode, thread in copies.items() if thread.is_alive()}


def check(ledger: Ledger, prefix: str, copies: dict[str, InThread]) -> None:
    for mode, thread in copies.items():
        thread.finish(240)
        report = ledger.check(f"{prefix}-{mode}")
        assert (report.lost, report.out_of_order, report.damaged, report.unknown) == (0, 0, 0, 0)
        # A new leader knows the last batches of each idempotent producer from its log.
        if mode != "batched":
            assert report.duplicates == 0, mode


def test_two_leaders_killed_in_a_row_break_no_guarantee_of_a_mode(
    cluster: Cluster, tmp_path: Path
) -> None:
    ledger, copies = started(cluster, "killed", tmp_path)
    target = f"killed-{MODE_NAMES[0]}"
    assert running(copies) == set(MODE_NAMES), "a copy ended before the fault"
    for _ in range(2):
        assert running(copies), "all copies ended before the fault"
        cluster.kill_leader(target)
        cluster.start()
        wait_until(lambda: cluster.in_sync(target), 120, "all replicas")
    assert len(cluster.faults) == 2
    check(ledger, "killed", copies)


def test_a_paused_leader_and_a_rolling_restart_break_no_guarantee_of_a_mode(
    cluster: Cluster, tmp_path: Path
) -> None:
    ledger, copies = started(cluster, "paused", tmp_path)
    target = f"paused-{MODE_NAMES[0]}"
    assert running(copies) == set(MODE_NAMES), "a copy ended before the fault"
    cluster.pause_leader(target)
    wait_until(lambda: cluster.in_sync(target), 120, "all replicas")
    for node in (1, 2, 3):
        assert running(copies), "all copies ended before the fault"
        cluster.restart(node)
        wait_until(lambda: cluster.in_sync(target), 120, "all replicas")
    check(ledger, "paused", copies)


def test_topics_that_headwater_creates_have_the_replicas_of_the_cluster(cluster: Cluster) -> None:
    create_topic("replicated", 1, cluster.settings.kafka)
    wait_until(lambda: cluster.in_sync("replicated"), 60, "three replicas in sync")
    assert cluster.leader("replicated") in (1, 2, 3)
