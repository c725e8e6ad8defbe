"""Processes of a home: found for sure, stopped for sure, and no other ever touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headwater.errors import ServiceStartError
from headwater.service import down
from headwater.service.processes import (
    end_of_log,
    find_process,
    noted,
    noted_processes,
    run_to_end,
    start_detached,
    stop_process,
    wait_until_gone,
)
from headwater.settings import load

pytestmark = pytest.mark.timeout(30)

PATIENCE = 10.0
SLEEP = "print('ready', flush=True); import time; time.sleep(60)"
IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
WITH_CHILD = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "print(child.pid, flush=True)\n"
    "import time; time.sleep(60)\n"
)

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python processes that are ready when it returns, and ends them after the test."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        process.ready = process.stdout.readline().strip()  # type: ignore[attr-defined]
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(PATIENCE)
        if process.stdout is not None:
            process.stdout.close()


def is_alive(process: psutil.Process) -> bool:
    # Who inherits a dead orphan may take its time to clear it away.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def write_note(home: Path, process: psutil.Process, *, started: float) -> Path:
    note = home / "run" / f"demo-{process.pid}.json"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"name": "demo", "pid": process.pid, "started": started}))
    return note


def noted_child(home: Path) -> str:
    """Code of a process that leaves a note and sleeps."""
    return (
        "import pathlib, time\n"
        "from headwater.service.processes import noted\n"
        f"with noted('my-demo', pathlib.Path({str(home)!r})):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )


def test_a_process_is_found_by_a_whole_argument(start: Start, tmp_path: Path) -> None:
    child = start(SLEEP, f"-Dhome={tmp_path}")
    found = find_process(f"-Dhome={tmp_path}")
    assert found is not None
    assert found.pid == child.pid


def test_a_part_of_an_argument_finds_nothing(start: Start, tmp_path: Path) -> None:
    start(SLEEP, f"-Dhome={tmp_path}/longer")
    assert find_process(f"-Dhome={tmp_path}") is None
    assert find_process(str(tmp_path)) is None


def test_a_process_that_ended_is_not_found_even_if_nobody_waited_for_it(
    start: Start, tmp_path: Path
) -> None:
    child = start(SLEEP, str(tmp_path))
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert find_process(str(tmp_path)) is None


def test_a_process_that_ends_when_asked_is_not_killed(start: Start) -> None:
    child = start(SLEEP)
    assert stop_process(psutil.Process(child.pid), PATIENCE) is True
    assert not psutil.pid_exists(child.pid)


def test_a_process_that_ignores_sigterm_is_killed_after_the_timeout(start: Start) -> None:
    child = start(IGNORE_SIGTERM)
    began = time.monotonic()
    assert stop_process(psutil.Process(child.pid), 0.3) is False
    assert 0.3 <= time.monotonic() - began < PATIENCE
    assert not psutil.pid_exists(child.pid)


def test_a_process_that_is_halted_is_killed_too(start: Start) -> None:
    child = start(SLEEP)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)  # else SIGTERM may come first
    assert stop_process(psutil.Process(child.pid), 0.2) is False
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize("code", [SLEEP, IGNORE_SIGTERM])
def test_children_do_not_outlive_a_process_that_is_stopped(code: str, start: Start) -> None:
    child = start(WITH_CHILD, code)
    grandchild = psutil.Process(int(child.ready))  # type: ignore[attr-defined]
    stop_process(psutil.Process(child.pid), PATIENCE)
    assert not is_alive(grandchild)


def test_stopping_a_process_that_is_gone_is_harmless(start: Start) -> None:
    child = start(SLEEP)
    process = psutil.Process(child.pid)
    child.kill()
    child.wait(PATIENCE)
    assert stop_process(process, PATIENCE) is True


def test_a_detached_process_has_a_session_of_its_own_and_writes_to_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_GIVEN", "a value")
    log = tmp_path / "logs" / "service.log"
    log.parent.mkdir()
    log.write_text("earlier\n")
    code = "import os, sys; print(os.environ['TEST_GIVEN']); print('to stderr', file=sys.stderr)"
    process = start_detached(
        [sys.executable, "-c", f"{code}; sys.stdout.flush(); sys.stdin.read(); {SLEEP}"],
        log,
    )
    try:
        assert os.getsid(process.pid) != os.getsid(0)
        deadline = time.monotonic() + PATIENCE
        while "ready" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait(PATIENCE)
    assert set(log.read_text().split("\n")) >= {"earlier", "a value", "to stderr", "ready"}


def test_a_process_with_a_note_is_known_until_it_ends(start: Start, tmp_path: Path) -> None:
    child = start(noted_child(tmp_path))
    assert [(name, process.pid) for name, process in noted_processes(tmp_path)] == [
        ("my-demo", child.pid)
    ]
    child.kill()  # no clean-up: the note stays
    child.wait(PATIENCE)
    assert len(list((tmp_path / "run").iterdir())) == 1
    assert noted_processes(tmp_path) == []
    assert list((tmp_path / "run").iterdir()) == []


def test_a_note_is_removed_when_the_body_ends_or_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with noted("demo", tmp_path):
            assert len(list((tmp_path / "run").glob("demo-*.json"))) == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "run").iterdir()) == []


def test_a_process_does_not_list_itself_so_that_down_in_a_demo_is_no_suicide(
    tmp_path: Path,
) -> None:
    with noted("demo", tmp_path):
        assert noted_processes(tmp_path) == []
        assert len(list((tmp_path / "run").glob("demo-*.json"))) == 1


def test_a_note_whose_pid_was_given_to_another_process_is_not_ours(
    start: Start, tmp_path: Path
) -> None:
    process = psutil.Process(start(SLEEP).pid)
    note = write_note(tmp_path, process, started=process.create_time() - 60)
    assert noted_processes(tmp_path) == []
    assert not note.exists()
    assert process.is_running()


def test_a_note_with_the_right_start_time_is_ours(start: Start, tmp_path: Path) -> None:
    process = psutil.Process(start(SLEEP).pid)
    write_note(tmp_path, process, started=process.create_time())
    assert noted_processes(tmp_path) == [("demo", process)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        '{"pid": 1}',
        '{"pid": "x", "started": 1}',
        '{"pid": -1, "started": 1}',
        '{"pid": 99999999999999999999999, "started": 1}',
        '{"pid": null, "started": null}',
    ],
)
def test_a_note_that_cannot_be_read_stops_nothing_and_is_removed(
    content: str, tmp_path: Path
) -> None:
    note = tmp_path / "run" / "demo-1.json"
    note.parent.mkdir()
    note.write_text(content)
    assert noted_processes(tmp_path) == []
    assert not note.exists()


def test_a_home_without_notes_has_none(tmp_path: Path) -> None:
    assert noted_processes(tmp_path / "not-there") == []


def test_down_stops_the_noted_process_of_this_home_and_no_other(
    start: Start, tmp_path: Path
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    ours = start(noted_child(mine))
    reused = psutil.Process(start(SLEEP).pid)
    write_note(mine, reused, started=reused.create_time() - 60)
    strangers = [
        reused,
        psutil.Process(start(noted_child(other)).pid),
        psutil.Process(start(SLEEP, f"-Dheadwater.home={other}", f"headwater.home={other}").pid),
        psutil.Process(start(SLEEP, f"-Dheadwater.home={mine}2", f"headwater.home={mine}2").pid),
        # Somebody who looks at the folders, or makes a copy of them.
        psutil.Process(start(SLEEP, str(mine), str(mine / "kafka" / "data")).pid),
        psutil.Process(start(SLEEP, "-D", str(mine / "postgres" / "data")).pid),
    ]
    assert down(load(home=mine), wipe=True) == ["my-demo"]
    assert ours.poll() is not None
    assert not mine.exists()
    assert [process for process in strangers if not is_alive(process)] == []
    assert down(load(home=mine)) == []


def test_a_helper_that_succeeds_gets_its_input_and_environment(tmp_path: Path) -> None:
    got = tmp_path / "got"
    write = f"open({str(got)!r}, 'w').write(sys.stdin.read() + os.environ['TEST_GIVEN'])"
    code = f"import os, sys; {write}"
    run_to_end(
        [sys.executable, "-c", code],
        "the helper",
        timeout_seconds=PATIENCE,
        stdin="in",
        environment={"TEST_GIVEN": "x"},
    )
    assert got.read_text() == "inx"


def test_a_helper_that_fails_is_told_with_the_end_of_its_output() -> None:
    code = "for n in range(100): print('line', n)\nraise SystemExit('reason')"
    with pytest.raises(ServiceStartError, match=r"^the helper failed:\n") as caught:
        run_to_end([sys.executable, "-c", code], "the helper", timeout_seconds=PATIENCE)
    lines = caught.value.message.splitlines()
    assert lines[-2:] == ["line 99", "reason"]
    assert len(lines) <= 13


def test_output_of_a_helper_that_is_not_utf_8_is_no_second_error() -> None:
    code = r"import os; os.write(2, b'bad \xff byte'); raise SystemExit(1)"
    with pytest.raises(ServiceStartError, match="bad \ufffd byte"):
        run_to_end([sys.executable, "-c", code], "the helper", timeout_seconds=PATIENCE)


def test_a_helper_that_hangs_is_ended_and_the_setting_is_named() -> None:
    with pytest.raises(ServiceStartError, match=r"did not end within 0\.3 s") as caught:
        run_to_end([sys.executable, "-c", SLEEP], "the helper", timeout_seconds=0.3)
    assert "HEADWATER_SERVICES__START_TIMEOUT_SECONDS" in (caught.value.hint or "")


def test_waiting_ends_when_the_marker_is_gone_or_time_is_up(start: Start, tmp_path: Path) -> None:
    child = start(SLEEP, str(tmp_path))
    assert wait_until_gone(str(tmp_path), 0.2) is False
    child.kill()
    assert wait_until_gone(str(tmp_path), PATIENCE) is True


def test_the_end_of_a_log_is_its_last_lines_whatever_bytes_it_holds(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    assert end_of_log(log) == "(no log)"
    log.write_bytes(b"".join(b"line %d \xff\n" % n for n in range(100)))
    lines = end_of_log(log).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "line 99 \ufffd"
