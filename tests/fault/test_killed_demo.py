"""Killing the demo at any moment leaves nothing that `headwater down` does not stop."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.support import Headwater, alive, environment

from headwater.settings import Settings
from headwater.testing.fixtures import local_settings


def processes_of(settings: Settings) -> list[psutil.Process]:
    """Whatever has this home on its command line or in its environment."""
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
    ("seconds", "whole_group"), [(0.5, True), (1.5, False), (2.5, True), (9.0, False)]
)
def test_down_stops_all_that_a_killed_demo_left(
    headwater: Headwater, tmp_path: Path, seconds: float, whole_group: bool
) -> None:
    settings = local_settings(tmp_path / "home")
    # As `make demo` runs it: a shell in between, which may be what is killed.
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"{sys.executable} -m headwater demo; true"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment(settings),
    )
    time.sleep(seconds)
    started = processes_of(settings)
    assert started, "the demo was not running when it was to be killed"
    if whole_group:
        for process in [psutil.Process(shell.pid), *psutil.Process(shell.pid).children(True)]:
            process.kill()
    else:
        shell.kill()
    shell.wait(10)
    done = headwater("down", "--wipe", settings=settings)
    assert done.returncode == 0, done.stderr
    # A JVM ends by itself when its driver is gone, within a moment.
    deadline = time.monotonic() + 10
    while processes_of(settings) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(settings) == []
    assert not settings.home_dir.exists()
