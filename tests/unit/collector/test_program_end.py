"""The run of an application ends as its program ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headwater.collector import session

# An open run in a process, whose events go to standard output.
PROGRAM = """
import json, sys, time
from datetime import UTC, datetime
from headwater.openlineage import LineageRun
from headwater.collector import session
from headwater.collector.application import ApplicationLineage

class Open:
    lineage = ApplicationLineage(
        LineageRun(lambda event: print(json.dumps(event)), "n", "App", "r-1"), datetime.now(UTC)
    )

    def end(self, error):
        self.lineage.finish(error)

session._current = Open()
Open.lineage.start()
session._install_exit_hooks()
"""


def last_event(tmp_path: Path, ending: str) -> tuple[int, dict[str, Any]]:
    """Exit code of the program, and the last event."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + ending)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return done.returncode, json.loads(lines[-1])


@pytest.mark.parametrize(
    ("ending", "code", "state", "message"),
    [
        ("", 0, "COMPLETE", None),
        ("sys.exit()", 0, "COMPLETE", None),
        ("sys.exit(0)", 0, "COMPLETE", None),
        ("sys.exit(1)", 1, "FAIL", "the program ended with exit code 1"),
        ("sys.exit('no file')", 1, "FAIL", "the program ended with exit code 1: no file"),
        ("sys.exit(143)", 143, "ABORT", "the application was stopped"),
        ("exit(5)", 5, "FAIL", "the program ended with exit code 5"),
        ("quit()", 0, "COMPLETE", None),
        ("raise ValueError('broken')", 1, "FAIL", "ValueError: broken"),
        # In another thread it ends only that thread.
        (
            "import threading\n"
            "thread = threading.Thread(target=sys.exit, args=(1,))\n"
            "thread.start(); thread.join()",
            0,
            "COMPLETE",
            None,
        ),
    ],
)
def test_a_program_that_exits_with_an_error_is_a_failed_run(
    tmp_path: Path, ending: str, code: int, state: str, message: str | None
) -> None:
    exit_code, event = last_event(tmp_path, ending)
    facets = event["run"]["facets"]
    assert (exit_code, event["eventType"]) == (code, state)
    assert facets.get("errorMessage", {}).get("message") == message


def test_work_that_succeeds_after_an_error_clears_the_error(tmp_path: Path) -> None:
    failed = "session._record_failure(ValueError('typed wrong'))\n"
    earlier = "session._clear_failure_before(int(time.time() * 1000) - 1000)"
    later = "session._clear_failure_before(int(time.time() * 1000) + 1000)"
    # An earlier write that Spark reports late does not clear it.
    assert last_event(tmp_path, failed + earlier)[1]["eventType"] == "FAIL"
    assert last_event(tmp_path, failed + later)[1]["eventType"] == "COMPLETE"


def test_a_new_session_does_not_fail_for_an_error_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "Application", lambda *args: None)
    monkeypatch.setattr(session, "emitter_of", lambda settings: object())
    monkeypatch.setattr(session, "_end_with", lambda spark: None)
    monkeypatch.setattr(session, "_failed_at", time.time())
    monkeypatch.setattr(session, "_failure", ValueError("of the previous session"))
    session._begin(None, "App", None)  # type: ignore[arg-type]
    assert session._failure is None
