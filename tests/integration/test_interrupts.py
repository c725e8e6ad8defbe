"""A signal handler of the user that raises an exception stops the query of a blocking `write`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kills import wait_for_growth
from tests.lineage_events import spooled, states
from tests.support import environment
from tests.waiting import wait_until

from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker
from headwater.testing.ledger import Ledger

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

NAME = "interrupted_copy"
PROGRAM = """
import signal, sys
from pathlib import Path
from headwater import LineageJob

source, target, checkpoint = sys.argv[1:]

def stop(number, frame):
    sys.exit(7)

signal.signal(signal.SIGTERM, stop)
job = LineageJob("interrupted_copy", checkpoint=Path(checkpoint))
# Spark replaces this one itself.
handlers = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}

def unchanged():
    return all(signal.getsignal(name) == handler for name, handler in handlers.items())

def on_batch(progress):
    print("own handlers:", unchanged(), flush=True)

def copy(**options):
    rows = job.read(source).select("key", "value", "lineage")
    job.write(rows, target, on_batch=on_batch, **options)

try:
    copy()
except SystemExit as stopped:
    print("stopped, own handlers:", unchanged(), "active:", len(job.spark.streams.active))
    copy(trigger={"availableNow": True})
    print("continued in the same process")
    raise
"""


def start(settings: Settings, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The program in a new process group; its output goes to `log`."""
    file = folder / "program.py"
    file.write_text(PROGRAM)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-u", str(file), *arguments, str(folder / "checkpoint")],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment(settings),
        )


def test_an_exit_by_the_users_handler_completes_the_batch_and_releases_the_checkpoint(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    ledger, log = Ledger(source, broker), tmp_path / "log"
    # All in one batch: a busy query starts the next one at once, which a stop interrupts.
    ledger.write(50_000)
    before = len(spooled(broker, NAME))
    job = start(broker, tmp_path, source, target)
    try:
        wait_for_growth(target, broker, job, log)
        os.kill(job.pid, signal.SIGTERM)
        assert job.wait(120) == 7, log.read_text()
    finally:
        job.kill()
    lines = log.read_text().splitlines()
    assert "stopped, own handlers: True active: 0" in lines, log.read_text()
    assert "continued in the same process" in lines, log.read_text()
    assert "own handlers: False" not in lines
    assert read_progress(tmp_path / "checkpoint").cut_off is None
    report = ledger.check(target)
    assert report.perfect, report
    ends = [each for each in states(spooled(broker, NAME)[before:]) if each != "RUNNING"]
    assert ends == ["START", "ABORT", "START", "COMPLETE"]


def test_ctrl_c_in_a_users_program_ends_the_run_as_aborted_and_loses_nothing(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    ledger, log = Ledger(source, broker), tmp_path / "log"
    ledger.write(1000)
    before = len(spooled(broker, NAME))
    job = start(broker, tmp_path, source, target)
    try:
        wait_for_growth(target, broker, job, log)
        ledger.write(100_000)
        wait_for_growth(target, broker, job, log)
        # Spark's handler cancels the running job and raises KeyboardInterrupt.
        os.kill(job.pid, signal.SIGINT)
        assert job.wait(120) == -signal.SIGINT, log.read_text()
    finally:
        job.kill()
    assert "KeyboardInterrupt" in log.read_text()
    ends = [each for each in states(spooled(broker, NAME)[before:]) if each != "RUNNING"]
    assert ends == ["START", "ABORT"], log.read_text()
    again = start(broker, tmp_path, source, target)
    try:
        # New records: those before may have been written by the first process.
        ledger.write(1000)
        wait_until(lambda: ledger.check(target).found >= 102_000, 120, details=log.read_text)
        os.kill(again.pid, signal.SIGTERM)
        assert again.wait(120) == 7, log.read_text()
    finally:
        again.kill()
    report = ledger.check(target)
    assert report.perfect, report
