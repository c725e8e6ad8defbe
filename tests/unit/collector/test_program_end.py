"""The run of an application ends as its program is known to have ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.collector import session

# An open run in a process, whose events go to standard output.
PROGRAM = """
import atexit, json, sys
from datetime import UTC, datetime
from headwater.collector import session
from headwater.collector.application import ApplicationLineage
from headwater.collector.application_run import last_error, uncaught_error
from headwater.openlineage import LineageRun

class Open:
    lineage = ApplicationLineage(
        LineageRun(lambda event: print(json.dumps(event)), "n", "App", "r-1"), datetime.now(UTC)
    )
    before = last_error()

    def end(self, error):
        self.lineage.finish(error)

    def end_as_observed(self):
        self.end(uncaught_error(self.before) or self.lineage.outcome_of_writes())

def write(execution, table, **end):
    known = {"execution": execution, "inputs": [], "outputs": [{"name": table, "catalog": "c",
             "provider": "iceberg", "location": f"file:///{table}", "fields": []}]}
    Open.lineage.take({**known, "state": "START"})
    if end.get("state", "END") == "END":
        Open.lineage.take({**known, "state": "END", "alone": True, **end})

session._current = Open()
atexit.register(session._end_open_run)
Open.lineage.start()
"""
FAILED = "write(1, 'c.a', failure='no space')\n"


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
        ("write(1, 'c.a')", 0, "COMPLETE", None),
        ("raise ValueError('broken')", 1, "FAIL", "ValueError: broken"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "ABORT", "the application was stopped"),
        # A command that handles the error reports it.
        ("session.report_program_error(SystemExit(3)); sys.exit(3)", 3, "FAIL", "exit code 3"),
        ("session.report_program_error(SystemExit(143))", 0, "ABORT", "was stopped"),
        # The outcome of the writes is known, the exit code is not.
        ("write(1, 'c.a'); sys.exit(1)", 1, "COMPLETE", None),
        (FAILED + "sys.exit(1)", 1, "FAIL", "the write to c.a failed: no space"),
        (FAILED, 0, "FAIL", "the write to c.a failed: no space"),
        (FAILED + "write(2, 'c.b')", 0, "FAIL", "the write to c.a failed: no space"),
        # It was repeated.
        (FAILED + "write(2, 'c.a')", 0, "COMPLETE", None),
        ("write(1, 'c.a', failure='x', nested=True)", 0, "COMPLETE", None),
        ("write(1, 'c.a', state='RUNNING')", 0, "ABORT", "ended during a write to c.a"),
        # What is reported explicitly is not completed by what is observed.
        (FAILED + "session.finish_lineage()", 0, "COMPLETE", None),
        ("session.finish_lineage('no rows'); raise ValueError", 1, "FAIL", "no rows"),
        # In an interactive session the program continues after an error.
        ("sys.ps1 = '> '; sys.last_value = ValueError('typed wrong')", 0, "COMPLETE", None),
    ],
)
def test_a_run_ends_as_its_program_is_known_to_have_ended(
    tmp_path: Path, ending: str, code: int, state: str, message: str | None
) -> None:
    exit_code, event = last_event(tmp_path, ending)
    error = event["run"]["facets"].get("errorMessage", {}).get("message")
    assert (exit_code, event["eventType"]) == (code, state)
    assert error is None if message is None else message in error


def test_an_error_before_the_run_is_not_the_error_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = "Open.before = sys.last_value = ValueError('of an earlier run')"
    assert last_event(tmp_path, earlier)[1]["eventType"] == "COMPLETE"
    # The same for an error that a command has reported.
    monkeypatch.setattr(session, "Application", lambda *args: None)
    monkeypatch.setattr(session, "emitter_of", lambda settings: object())
    monkeypatch.setattr(session, "_reported_error", ValueError("of an earlier run"))
    monkeypatch.setattr(session, "_at_exit_registered", True)
    settings: Any = SimpleNamespace()
    before = signal.getsignal(signal.SIGTERM)
    session._begin(settings, "App", settings)
    assert session._reported_error is None
    assert signal.getsignal(signal.SIGTERM) is before
