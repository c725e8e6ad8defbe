"""`headwater down` stops all processes of a demo that was killed at any moment."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.support import Headwater, alive, environment
from tests.waiting import wait_until

from headwater.settings import Settings
from headwater.testing.fixtures import local_settings


def processes_of(settings: Settings) -> list[psutil.Process]:
    """Processes with this home in their command line or environment."""
    home = str(settings.home_dir)
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if any(home in word for word in words) and alive(process):
            found.append(process)
    return found


# Before anything is started, while the broker starts, while Spark runs.
@pytest.mark.parametrize(
    ("seconds", "with_children"), [(0.5, True), (1.5, False), (2.5, True), (9.0, False)]
)
def test_down_stops_all_processes_of_a_killed_demo(
    headwater: Headwater, tmp_path: Path, seconds: float, with_children: bool
) -> None:
    settings = local_settings(tmp_path / "home")
    # In a shell, as `make demo` runs it; only the shell may be killed.
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"{sys.executable} -m headwater demo; true"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment(settings),
    )
    if not with_children:
        # `down` can't find a demo that still imports its modules.
        wait_until(lambda: list((settings.home_dir / "run").glob("demo-*.json")), 60, "the demo")
    time.sleep(seconds)
    started = processes_of(settings)
    assert started, "the demo was not running before the kill"
    if with_children:
        for process in [psutil.Process(shell.pid), *psutil.Process(shell.pid).children(True)]:
            process.kill()
    else:
        shell.kill()
    shell.wait(10)
    done = headwater("down", "--wipe", "--archives", settings=settings)
    assert done.returncode == 0, done.stderr
    # A JVM exits by itself shortly after its driver.
    wait_until(
        lambda: not processes_of(settings),
        60,
        "all processes to exit",
        lambda: str(processes_of(settings)),
        pause_seconds=0.2,
    )
    assert not settings.home_dir.exists()
