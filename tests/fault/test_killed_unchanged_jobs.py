"""Kills in the middle of batches of plain jobs with state and row lineage."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

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
RECORDS, PER_BATCH = 8000, 4000
# The number of the first record on the other side of the join.
RIGHT = 1_000_000
WINDOW = 20
# More than cores, so that the tasks of a batch write one after the other.
CONFIGURATION = {
    "spark.sql.shuffle.partitions": "4",
    "spark.headwater.lineage.delivery": "transactional",
}


def fill(records: Records, left: str, right: str) -> None:
    """The same keys and times in both topics, and a last record a day later in each partition,
    which has no match and advances the watermark past all others."""
    for topic, first, last_key in ((left, 0, 98), (right, RIGHT, 99)):
        records.fill(topic, RECORDS, first=first)
        with RecordProducer(records.settings.kafka) as producer:
            for partition in (0, 1):
                value = f'{{"n": {first + RECORDS}, "k": {last_key}, "t": {START + 86_400}}}'
                producer.send(topic, value.encode(), partition=partition)


def groups() -> Counter[frozenset[int]]:
    found: dict[tuple[int, int], set[int]] = {}
    for number in range(RECORDS):
        key = (number % 10, (START + number) // WINDOW)
        found.setdefault(key, set()).add(number)
    return Counter(frozenset(each) for each in found.values())


def pairs() -> Counter[frozenset[int]]:
    return Counter(
        frozenset({number, RIGHT + number} if number % 2 == 0 else {number})
        for number in range(RECORDS)
    )


def test_killed_plain_jobs_with_state_write_every_row_once_with_exact_parents(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    left, right = make_topic("left"), make_topic("right")
    outputs = {name: make_topic(name) for name in ("windowed", "joined")}
    records = Records(broker)
    fill(records, left, right)
    checkpoints, log = tmp_path / "checkpoints", tmp_path / "job.log"
    queries = [f"{name}:{left}:{right}:{output}" for name, output in outputs.items()]
    arguments = [broker.bootstrap_servers, str(checkpoints), str(PER_BATCH), *queries]

    def start() -> subprocess.Popen[bytes]:
        job = [str(JOB), *arguments]
        return submit(broker, log, job, master="local[1]", configuration=CONFIGURATION)

    for name, output in outputs.items():
        job = start()
        wait_for_growth(output, broker, job, log)
        kill(job)
        # Proof of the fault: the batch has written, and Spark has not committed it.
        assert read_progress(checkpoints / name).cut_off is not None, log.read_text()
    last = start()
    assert last.wait(200) == 0, log.read_text()

    for name, expected in (("windowed", groups()), ("joined", pairs())):
        found = Counter[frozenset[int]]()
        for record in read_topic(outputs[name], broker.kafka):
            parents = records.parents(record)
            assert parents is not None
            assert parents.exact
            assert parents.numbers == true_parents(record), record
            found[true_parents(record)] += 1
        assert found == expected, (found - expected, expected - found)
        # The killed attempts had written: their aborted records have offsets.
        assert records_in(outputs[name], broker) > expected.total()
