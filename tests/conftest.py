"""Fixtures of all tests; the heavy ones are Headwater's own, public ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import Headwater, environment

from headwater.settings import Settings

pytest_plugins = ["headwater.testing.fixtures"]


@pytest.fixture
def headwater(headwater_settings: Settings, tmp_path: Path) -> Headwater:
    """Runs the command line as a person would: `headwater("topics", "list").stdout`."""

    def run(
        *arguments: str,
        stdin: str | bytes = "",
        settings: Settings | None = None,
        timeout: float = 120,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "headwater", *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=tmp_path,
            env=environment(settings or headwater_settings, **variables),
        )
        return subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )

    return run
