"""The run of a killed batch application is ended by the next one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.openlineage import LineageRun
from headwater.openlineage.events import Event
from headwater.openlineage.open_applications import OpenApplicationNote, end_killed_applications
from headwater.settings import load

AT = "2026-01-01T00:00:00Z"
PROGRAM = """
import os, sys, signal
from headwater.openlineage import LineageRun
from headwater.openlineage.open_applications import OpenApplicationNote
from headwater.settings import load

note = OpenApplicationNote(load(home=sys.argv[1]))
note.write(LineageRun(print, "n", "killed", "r-killed"), "2026-01-01T00:00:00Z")
if sys.argv[2] == "clear":
    note.clear()
os.kill(os.getpid(), signal.SIGKILL)
"""


def refuse(event: Event) -> None:
    pytest.fail(f"emitted: {event}")


def run_program(home: Path, ending: str) -> None:
    arguments = [sys.executable, "-c", PROGRAM, str(home), ending]
    subprocess.run(arguments, timeout=60, check=False)


def test_a_killed_run_is_aborted_once_and_open_ones_are_left_alone(tmp_path: Path) -> None:
    settings, events = load(home=tmp_path), list[Event]()
    own = OpenApplicationNote(settings)
    own.write(LineageRun(events.append, "n", "own", "r-own"), AT)
    run_program(tmp_path, "kill")
    ended = end_killed_applications(settings, events.append)
    assert [(each.job_name, each.run_id, each.started_at) for each in ended] == [
        ("killed", "r-killed", AT)
    ]
    (event,) = events
    assert (event["eventType"], event["run"]["runId"]) == ("ABORT", "r-killed")
    message = event["run"]["facets"]["errorMessage"]["message"]
    assert message == "the process ended without a final event"
    assert end_killed_applications(settings, events.append) == []
    own.clear()
    assert not list((settings.spool_dir / "open-runs").iterdir())


def test_a_run_that_has_ended_leaves_no_note(tmp_path: Path) -> None:
    run_program(tmp_path, "clear")
    assert end_killed_applications(load(home=tmp_path), refuse) == []


def test_a_note_that_cannot_be_read_or_written_is_ignored(tmp_path: Path) -> None:
    settings = load(home=tmp_path)
    folder = settings.spool_dir / "open-runs"
    folder.mkdir(parents=True)
    (folder / "application-r.json").write_text("not JSON")
    assert end_killed_applications(settings, refuse) == []
    other = load(home=tmp_path, lineage={"spool": tmp_path / "file"})
    other.spool_dir.write_text("")
    note = OpenApplicationNote(other)
    note.write(LineageRun(refuse, "n", "own", "r-own"), AT)
    note.clear()
