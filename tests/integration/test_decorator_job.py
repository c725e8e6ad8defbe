"""The decorator job on a real broker: output, stop and restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support import Headwater, alive, environment
from tests.waiting import wait_until

from headwater.jobs import visits_decorator_job
from headwater.kafka import RecordProducer, end_offsets, read_topic
from headwater.model import Record
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import read_checkpoint
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@contextmanager
def running_job(
    settings: Settings, options: Sequence[str], **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """`headwater run` in a separate process, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", "run", "visits_decorator_job", *options],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(settings, **variables),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run_of(record: Record) -> str:
    lineage = origin_of(record).lineage
    assert lineage is not None
    assert lineage.run_id is not None
    return lineage.run_id


def wait_for_records(topic: str, count: int, settings: Settings, seconds: float = 60) -> None:
    wait_until(
        lambda: sum(end_offsets(topic, settings.kafka).values()) >= count,
        seconds,
        f"{count} records in {topic}",
    )


def decorate(settings: Settings, source: str, target: str, checkpoint: Path) -> None:
    options = ["--input-topic", source, "--output-topic", target, "--checkpoint", str(checkpoint)]
    visits_decorator_job.main.main(
        [*options, "--available-now", "--quiet"], standalone_mode=False, obj=settings
    )


@pytest.mark.lines
def test_each_record_keeps_its_bytes_and_has_the_job_in_its_headers(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    foreign = [("traceparent", b"00-\xff"), ("traceparent", None), ("job_name", b"forged")]
    with RecordProducer(broker.kafka) as producer:
        producer.send(source, b"\x00\xff not utf-8", b"k\xfe", partition=0, headers=foreign)
        producer.send(source, b"", b"", partition=0)
        producer.send(source, None, b"tombstone", partition=0)
        producer.send(source, b"no key", None, partition=0)
    decorate(broker, source, target, tmp_path / "checkpoint")
    stamp = (
        ("job_version", b"v1.0.0"),
        ("job_name", b"visits_decorator"),
        ("batch_version", b"0"),
    )
    run = run_of(next(read_topic(target, broker.kafka)))

    def lineage(offset: int) -> tuple[str, bytes]:
        return "lineage", f"1 {run} {source}/0@{offset}".encode()

    records = sorted(
        read_topic(target, broker.kafka), key=lambda record: (record.key or b"", record.key is None)
    )
    assert [(record.key, record.value) for record in records] == [
        (b"", b""),
        (None, b"no key"),
        (b"k\xfe", b"\x00\xff not utf-8"),
        (b"tombstone", None),
    ]
    assert records[0].headers == (*stamp, lineage(1))
    # Foreign headers are kept in order, also duplicates and nulls; forged ones are not.
    foreign_kept = (("traceparent", b"00-\xff"), ("traceparent", None))
    assert records[2].headers == (*stamp, lineage(0), *foreign_kept)


def test_batch_ids_continue_after_a_restart_and_nothing_is_repeated(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    ledger = Ledger(source, broker)
    for round_ in range(3):
        ledger.write(50)
        decorate(broker, source, target, tmp_path / "checkpoint")
        batches = {record.header("batch_version") for record in read_topic(target, broker.kafka)}
        assert batches == {str(number).encode() for number in range(round_ + 1)}
    report = ledger.check(target)
    assert report.perfect, report
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert checkpoint is not None
    assert checkpoint.committed == {source: end_offsets(source, broker.kafka)}
    assert checkpoint.started == {source: {0: 0, 1: 0}}
    assert checkpoint.outputs is not None
    assert sorted(checkpoint.outputs) == [target, f"{target}-dead-letter"]


def test_a_decorated_record_enters_at_most_35_modules(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """What a reader has to know to follow one record, from the command to its header and run."""
    source = make_topic("in")
    Ledger(source, broker).write(1)
    options = ["--input-topic", source, "--output-topic", f"{source}-out", "--available-now"]
    options += ["--checkpoint", str(tmp_path / "checkpoint")]
    command = [sys.executable, "tests/entered_modules.py", str(tmp_path / "modules")]
    subprocess.run(
        [*command, "run", "visits_decorator_job", *options],
        env=environment(broker),
        check=True,
        timeout=90,
    )
    modules = (tmp_path / "modules").read_text().split()
    assert {"cli/run.py", "delivery/sink.py", "openlineage/transport.py"} <= set(modules)
    assert len(modules) <= 35, "\n".join(modules)


def test_sigterm_to_the_process_group_stops_the_job_and_the_next_start_continues(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    ledger = Ledger(source, broker)
    ledger.write(1000)
    options = ["--input-topic", source, "--output-topic", target]
    options += ["--checkpoint", str(tmp_path / "checkpoint")]
    with running_job(broker, options) as job:
        wait_for_records(target, 1000, broker)
        ledger.write(100_000)
        children = psutil.Process(job.pid).children(recursive=True)
        os.killpg(job.pid, signal.SIGTERM)
        assert job.wait(60) == 0
    assert [child for child in children if alive(child)] == []
    assert headwater("run", "visits_decorator_job", *options, "--available-now").returncode == 0
    report = ledger.check(target)
    assert report.perfect, report


def test_an_idle_job_stops_at_once_on_sigint(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    Ledger(source, broker).write(10)
    options = ["--input-topic", source, "--output-topic", target]
    with running_job(broker, [*options, "--checkpoint", str(tmp_path / "c")]) as job:
        wait_for_records(target, 10, broker)
        time.sleep(1)
        began = time.monotonic()
        os.kill(job.pid, signal.SIGINT)
        assert job.wait(30) == 0
        assert time.monotonic() - began < 20


def test_the_job_fails_if_records_were_deleted_before_they_were_read(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    options = ["run", "visits_decorator_job", "--available-now", "--input-topic", source]
    options += ["--output-topic", target, "--checkpoint", str(tmp_path / "checkpoint")]
    ledger = Ledger(source, broker)
    ledger.write(10)
    assert headwater(*options).returncode == 0
    ledger.write(20)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(source, 0, 25)]).values():
        future.result(30)
    failed = headwater(*options)
    assert failed.returncode == 1
    assert "error: query 'visits_decorator' failed" in failed.stderr
    assert "some data may have been" in failed.stderr.lower()
    assert "Traceback" not in failed.stderr
    assert ledger.check(target).found == 10


def test_the_job_has_a_help_text_and_exits_2_for_invalid_options(headwater: Headwater) -> None:
    help_text = headwater("run", "visits-decorator-job", "--help").stdout
    for option in ("--starting-offsets", "--available-now", "--job-version", "--checkpoint"):
        assert option in help_text
    bad = headwater("run", "visits_decorator_job", "--starting-offsets", "soon")
    assert bad.returncode == 2
    assert "--starting-offsets" in bad.stderr
    unknown = headwater("run", "visits_dekorator_job")
    assert unknown.returncode == 2
    assert "visits_decorator_job" in unknown.stderr


def test_a_users_job_is_run_by_its_path(headwater: Headwater, tmp_path: Path) -> None:
    job = tmp_path / "own_job.py"
    (tmp_path / "neighbour.py").write_text("WORD = 'found'\n")
    job.write_text(
        "import json, sys\nimport neighbour\n"
        "if __name__ == '__main__':\n"
        "    print(json.dumps([neighbour.WORD, sys.argv[1:]]))\n"
    )
    done = headwater("run", str(job), "--flag", "value")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["found", ["--flag", "value"]]
