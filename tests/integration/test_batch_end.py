"""The run of a batch program, with a real Spark: how it ends, and what is known about it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.lineage_events import names, spooled, states
from tests.waiting import wait_until

from headwater.settings import child_environment, load

pytestmark = pytest.mark.spark

HEAD = """
import signal, sys, time
from pathlib import Path
from pyspark.sql import functions as F
from headwater.collector.session import (
    create_spark_session_with_lineage, finish_lineage, spark_session_with_lineage,
)

folder = Path(__file__).parent

def write(spark, name="rows"):
    spark.range(3).write.parquet(f"{folder}/{name}")

def write_slowly(spark):
    spark.range(0, 120, 1, 1).write.parquet(f"{folder}/input")
    # One row a second, in the JVM.
    slow = F.expr("java_method('java.lang.Thread', 'sleep', 1000L)")
    rows = spark.read.parquet(f"{folder}/input").select("id", slow.alias("slept"))
    rows.write.parquet(f"{folder}/slow")
"""
# A write fails that the program handles, then it exits with an error.
FAILED_WRITE = """
spark = create_spark_session_with_lineage("App", connectors=())
write(spark)
write(spark, "other")
try:
    write(spark)
except Exception:
    sys.exit(1)
"""
# The error is raised after `spark.stop()`.
FINALLY = """
spark = create_spark_session_with_lineage("App", connectors=())
try:
    write(spark)
    raise ValueError("no such article")
finally:
    spark.stop()
"""
STOPPED = """
spark = create_spark_session_with_lineage("App", connectors=())
write(spark)
spark.stop()
time.sleep(60)
"""
BLOCK = """
with spark_session_with_lineage("App", connectors=()) as spark:
    write(spark, "block")
    spark.stop()
    sys.exit(3)
"""
# The handler of the user interrupts a call to the JVM.
INTERRUPTED_BLOCK = """
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
with spark_session_with_lineage("App", connectors=()) as spark:
    write(spark)
    write_slowly(spark)
"""
SLOW = """
spark = create_spark_session_with_lineage("App", connectors=())
write_slowly(spark)
"""
EXIT = """
spark = create_spark_session_with_lineage("App", connectors=())
write(spark)
sys.exit(3)
"""


class Program:
    """A program in a process; its events stay in the spool, as there is no catalog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = load(home=folder / "home")

    def start(self, text: str, *command: str) -> subprocess.Popen[bytes]:
        file = self.folder / "program.py"
        file.write_text(HEAD + text)
        with (self.folder / "stderr").open("w") as errors:
            return subprocess.Popen(
                [sys.executable, *command, str(file)],
                stderr=errors,
                env=child_environment(
                    HEADWATER_HOME=str(self.settings.home_dir), MARQUEZ_URL="http://127.0.0.1:9"
                ),
            )

    def run(self, text: str, *command: str) -> int:
        with self.start(text, *command) as process:
            return process.wait(120)

    def run_until_written(self, text: str, *command: str) -> int:
        """Send SIGTERM during the slow write; returns the exit code."""
        slow, before = str(self.folder / "slow"), len(self.events())

        def writing() -> bool:
            return any(slow in names(event, "outputs") for event in self.events()[before:])

        with self.start(text, *command) as process:
            try:
                wait_until(writing, 60, "the slow write", (self.folder / "stderr").read_text)
                process.send_signal(signal.SIGTERM)
                return process.wait(60)
            finally:
                process.kill()

    def events(self) -> list[dict[str, Any]]:
        return spooled(self.settings, "App")

    def open_notes(self) -> list[Path]:
        """The notes of runs that have not ended."""
        return list(self.settings.home_dir.rglob("application-*.json"))

    def end(self) -> tuple[str, str | None]:
        """State and message of the last event."""
        errors = (self.folder / "stderr").read_text()
        assert self.events(), errors
        last = self.events()[-1]
        return last["eventType"], last["run"]["facets"].get("errorMessage", {}).get("message")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_write_that_failed_and_was_not_repeated_is_a_failed_run(program: Program) -> None:
    assert program.run(FAILED_WRITE) == 1
    state, message = program.end()
    assert state == "FAIL"
    assert message is not None
    assert message.startswith(f"the write to {program.folder}/rows failed: ")
    assert "PATH_ALREADY_EXISTS" in message


def test_an_error_after_the_end_of_the_session_is_the_error_of_the_run(program: Program) -> None:
    assert program.run(FINALLY) == 1
    assert program.end() == ("FAIL", "ValueError: no such article")


def test_a_session_that_the_program_stops_ends_the_run_before_the_program(
    program: Program,
) -> None:
    with program.start(STOPPED) as process:
        errors = (program.folder / "stderr").read_text
        wait_until(lambda: "COMPLETE" in states(program.events()), 60, details=errors)
        # The note of an open run is removed after its last event.
        wait_until(lambda: not program.open_notes(), 10, details=errors)
        assert process.poll() is None
        process.kill()
    # Killed after the end of its run: the next application has nothing to abort.
    assert program.run(BLOCK) == 3
    assert program.end() == ("FAIL", "the program ended with exit code 3")
    assert states(program.events()).count("ABORT") == 0


def test_a_block_has_the_exit_of_a_handler_that_interrupts_a_write(program: Program) -> None:
    assert program.run_until_written(INTERRUPTED_BLOCK) == 143
    assert program.end() == ("ABORT", "the application was stopped")
    assert "Traceback" not in (program.folder / "stderr").read_text()


def test_the_run_of_a_killed_program_is_aborted_by_the_next_one(program: Program) -> None:
    assert program.run_until_written(SLOW) == -signal.SIGTERM
    assert "ABORT" not in states(program.events())
    assert program.run(EXIT) == 3
    runs = [event["run"]["runId"] for event in program.events()]
    killed, last = runs[0], runs[-1]
    assert killed != last
    assert states(program.events(), killed)[-1] == "ABORT"
    # The exit code is not visible; all writes succeeded.
    assert states(program.events(), last)[-1] == "COMPLETE"


def test_headwater_run_knows_the_exit_code_and_stops_on_sigterm(program: Program) -> None:
    assert program.run(EXIT, "-m", "headwater", "run") == 3
    assert program.end() == ("FAIL", "the program ended with exit code 3")
    assert program.run_until_written(SLOW, "-m", "headwater", "run") == 143
    assert program.end() == ("ABORT", "the application was stopped")
