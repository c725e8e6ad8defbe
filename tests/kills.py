"""Jobs in separate processes, killed while they write."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from tests.support import environment
from tests.waiting import wait_until

from headwater.kafka import end_offsets
from headwater.settings import Settings


def start_job(
    settings: Settings,
    options: Sequence[str],
    log: Path,
    name: str = "visits_decorator_job",
    python: Path | str = sys.executable,
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [python, "-m", "headwater", "run", name, *options],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment(settings),
        )


def records_in(topic: str, settings: Settings) -> int:
    return sum(end_offsets(topic, settings.kafka).values())


def wait_for_growth(
    topic: str, settings: Settings, job: subprocess.Popen[bytes], log: Path
) -> None:
    """Return as soon as a batch is being written.

    With a short pause, because the callers kill the job before the batch is committed.
    """
    before = records_in(topic, settings)

    def grown() -> bool:
        assert job.poll() is None, log.read_text()
        return records_in(topic, settings) > before

    wait_until(grown, 150, f"new records in {topic}", log.read_text, pause_seconds=0.005)


def kill(job: subprocess.Popen[bytes], *, with_jvm: bool = True) -> None:
    """SIGKILL to the driver's Python and, unless excluded, to its JVM."""
    victims = [psutil.Process(job.pid)]
    if with_jvm:
        victims += psutil.Process(job.pid).children(recursive=True)
    for victim in victims:
        victim.kill()
    assert job.wait(10) == -signal.SIGKILL
