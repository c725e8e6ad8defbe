"""The virtual environments of the clients, made by `make test-clients`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

VENVS = os.environ.get("CLIENT_ENVIRONMENTS", "")
needs_environments = pytest.mark.skipif(not VENVS, reason="run `make test-clients`")


def run(client: str, program: str, *arguments: str, folder: Path, **variables: str) -> str:
    """The output of a client's program in a folder, whatever its exit code."""
    programs = f"{VENVS}/{client}/bin"
    done = subprocess.run(
        [f"{programs}/{program}", *arguments],
        cwd=folder,
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr
