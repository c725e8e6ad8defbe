"""The example project `examples/neuronews`; its jobs are run by the tests of the jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import environment

from headwater.settings import Settings

FOLDER = Path(__file__).parents[2] / "examples" / "neuronews"


def test_the_demo_script_prints_errors_without_a_stack_trace(
    headwater_settings: Settings,
) -> None:
    # The demo itself is run by tests/e2e/test_demo.py.
    wrong = environment(headwater_settings, HEADWATER_LINEAGE__INTERVAL_SECONDS="soon")
    done = subprocess.run(
        [sys.executable, "demo_openlineage_marquez.py"],
        cwd=FOLDER,
        env=wrong,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "error: " in done.stderr
    assert "interval_seconds" in done.stderr
    assert "Traceback" not in done.stderr
