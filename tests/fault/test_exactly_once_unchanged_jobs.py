"""Kills of plain jobs with `delivery=exactly-once`: every row is in the output once, also for
consumers that read uncommitted records."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.kills import kill, records_in, wait_for_growth
from tests.submitted import submit
from tests.unchanged import START, Records, true_parents

from headwater.kafka import RecordProducer, read_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

JOB = Path(__file__).parents[1] / "plain_job.py"
RECORDS = 40_000
WINDOW = 20
# More than cores, so that the tasks of a batch write one after the other.
CONFIGURATION = {
    "spark.sql.shuffle.partitions": "4",
    "spark.headwater.lineage.delivery": "exactly-once",
}


class KilledJob:
    """A query of the plain job that is started and killed several times."""

    def __init__(self, query: str, broker: Settings, make_topic: TopicMaker, folder: Path) -> None:
        self.name, self.broker = query, broker
        self.source, self.output = make_topic("in"), make_topic("out")
        self.log, self.checkpoint = folder / "job.log", folder / "checkpoints" / self.name
        self.records = Records(broker)

    def start(
        self, master: str = "local[1]", configuration: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        query = f"{self.name}:{self.source}:{self.source}:{self.output}"
        job = [str(JOB), self.broker.bootstrap_servers, str(self.checkpoint.parent)]
        return submit(
            self.broker,
            self.log,
            [*job, str(RECORDS), query],
            master=master,
            configuration={**CONFIGURATION, **(configuration or {})},
        )

    def kill_in_a_batch(self, kills: int) -> None:
        for _ in range(kills):
            job = self.start()
            wait_for_growth(self.output, self.broker, job, self.log)
            kill(job)
            # Proof of the fault: the batch has written, and Spark has not committed it.
            assert read_progress(self.checkpoint).cut_off is not None, self.log.read_text()

    def finish(
        self, master: str = "local[1]", configuration: Mapping[str, str] | None = None
    ) -> None:
        last = self.start(master, configuration)
        assert last.wait(200) == 0, self.log.read_text()

    def left_out(self) -> list[int]:
        """How many records each recovery has left out."""
        return [int(n) for n in re.findall(r"left out (\d+) records", self.log.read_text())]

    def rows(self) -> Counter[frozenset[int]]:
        """What the output has, aborted transactions included."""
        return Counter(
            true_parents(record)
            for record in read_topic(self.output, self.broker.kafka, read_uncommitted=True)
        )


def test_a_plain_job_that_is_killed_again_and_again_writes_every_row_once(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = KilledJob("copied", broker, make_topic, tmp_path)
    job.records.fill(job.source, RECORDS)
    job.kill_in_a_batch(3)
    before = records_in(job.output, broker)
    job.finish()
    assert job.rows() == Counter(frozenset({number}) for number in range(RECORDS))
    # Proof of the recovery: all that the killed runs have written was left out.
    assert job.left_out() == [before]
    assert 0 < before < RECORDS
    assert records_in(job.output, broker) == RECORDS, "offsets have gaps"


def test_a_killed_windowed_aggregate_writes_every_group_once(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = KilledJob("windowed", broker, make_topic, tmp_path)
    job.records.fill(job.source, RECORDS)
    with RecordProducer(broker.kafka) as producer:
        for partition in (0, 1):
            value = f'{{"n": {RECORDS}, "k": 98, "t": {START + RECORDS + 86_400}}}'
            producer.send(job.source, value.encode(), partition=partition)
    job.kill_in_a_batch(2)
    before = records_in(job.output, broker)
    job.finish()
    groups: dict[tuple[int, int], set[int]] = {}
    for number in range(RECORDS):
        groups.setdefault((number % 10, (START + number) // WINDOW), set()).add(number)
    assert job.rows() == Counter(map(frozenset, groups.values()))
    assert job.left_out() == [before]
    assert 0 < before < len(groups)


CLUSTER = "local-cluster[2,1,1024]"
# A start after an interrupted batch waits for these times, and five seconds.
SHORT_TIMEOUTS = {
    "spark.plain.sink.kafka.request.timeout.ms": "3000",
    "spark.plain.sink.kafka.delivery.timeout.ms": "5000",
    "spark.plain.sink.kafka.max.block.ms": "5000",
}


def executors_of(job: subprocess.Popen[bytes]) -> list[psutil.Process]:
    children = psutil.Process(job.pid).children(recursive=True)
    return [each for each in children if "CoarseGrainedExecutorBackend" in command_of(each)]


def command_of(process: psutil.Process) -> str:
    """The command of a process; empty if it has ended: Spark starts many that end at once."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


@pytest.mark.parametrize("killed", ["driver", "executor"])
def test_on_a_cluster_the_next_application_completes_the_batch_without_duplicates(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path, killed: str
) -> None:
    job = KilledJob("copied", broker, make_topic, tmp_path)
    job.records.fill(job.source, RECORDS)
    first = job.start(CLUSTER, SHORT_TIMEOUTS)
    wait_for_growth(job.output, broker, first, job.log)
    executors = executors_of(first)
    assert executors, job.log.read_text()
    if killed == "executor":
        for each in executors:
            each.kill()
        # A retry of a task never writes: the application fails instead.
        assert first.wait(120) != 0
        assert "is a retry, which can't determine" in job.log.read_text()
    else:
        # The executors are left, and end when they notice that the driver is gone.
        for each in psutil.Process(first.pid).children(recursive=True):
            if each not in executors:
                each.kill()
        first.kill()
        first.wait(10)
    assert read_progress(job.checkpoint).cut_off is not None, job.log.read_text()
    before = records_in(job.output, broker)
    job.finish(CLUSTER, SHORT_TIMEOUTS)
    assert job.rows() == Counter(frozenset({number}) for number in range(RECORDS))
    assert "waiting 15 s until writers of former runs have ended" in job.log.read_text()
    (left_out,) = job.left_out()
    assert 0 < before <= left_out < RECORDS
