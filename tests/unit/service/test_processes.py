"""Processes of a home are found and stopped reliably, and no other process is touched."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.waiting import wait_until

from headwater.errors import ServiceStartError
from headwater.service import down
from headwater.service.ownership import Identity, find_process, listens
from headwater.service.processes import (
    end_of_log,
    pid_file,
    pid_file_processes,
    run_to_end,
    start_detached,
    stop_process,
)
from headwater.settings import load

pytestmark = pytest.mark.timeout(30)

TIMEOUT = 10.0
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
    """Starts Python processes, waits until they are ready, and kills them after the test."""
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
        process.wait(TIMEOUT)
        if process.stdout is not None:
            process.stdout.close()


def is_alive(process: psutil.Process) -> bool:
    # A dead orphan may stay a zombie until init reaps it.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def write_pid_file(home: Path, process: psutil.Process, *, started: float) -> Path:
    file = home / "run" / f"demo-{process.pid}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"name": "demo", "pid": process.pid, "started": started}))
    return file


def child_with_pid_file(home: Path) -> str:
    """Code of a process that writes a pid file and sleeps."""
    return (
        "import pathlib, time\n"
        "from headwater.service.processes import pid_file\n"
        f"with pid_file('my-demo', pathlib.Path({str(home)!r})):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )


def identity(marker: str, before: str = "", executable: str = "python") -> Identity:
    return Identity(marker, before, executable, Path("no.log"))


def test_a_process_is_found_by_a_complete_argument(start: Start, tmp_path: Path) -> None:
    child = start(SLEEP, f"-Dhome={tmp_path}")
    found = find_process(identity(f"-Dhome={tmp_path}"))
    assert found is not None
    assert found.pid == child.pid


def test_a_part_of_an_argument_finds_nothing(start: Start, tmp_path: Path) -> None:
    start(SLEEP, f"-Dhome={tmp_path}/longer")
    assert find_process(identity(f"-Dhome={tmp_path}")) is None
    assert find_process(identity(str(tmp_path))) is None


def test_another_program_with_the_argument_of_a_service_is_not_found(
    start: Start, tmp_path: Path
) -> None:
    child = start(SLEEP, "--mark", str(tmp_path))
    assert find_process(identity(str(tmp_path), "--mark")) == psutil.Process(child.pid)
    assert find_process(identity(str(tmp_path), "-c")) is None
    assert find_process(identity(str(tmp_path), executable="postgres")) is None


def test_a_zombie_is_not_found(start: Start, tmp_path: Path) -> None:
    child = start(SLEEP, str(tmp_path))
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert find_process(identity(str(tmp_path))) is None


def test_the_process_that_listens_on_a_port_is_distinguished_from_others(start: Start) -> None:
    child = psutil.Process(start(SLEEP).pid)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert listens(psutil.Process(), port)
        assert not listens(child, port)


def test_a_process_that_handles_sigterm_is_not_killed(start: Start) -> None:
    child = start(SLEEP)
    assert stop_process(psutil.Process(child.pid), TIMEOUT) is True
    assert not psutil.pid_exists(child.pid)


def test_a_process_that_ignores_sigterm_is_killed_after_the_timeout(start: Start) -> None:
    child = start(IGNORE_SIGTERM)
    began = time.monotonic()
    assert stop_process(psutil.Process(child.pid), 0.3) is False
    assert 0.3 <= time.monotonic() - began < TIMEOUT
    assert not psutil.pid_exists(child.pid)


def test_a_suspended_process_is_killed(start: Start) -> None:
    child = start(SLEEP)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)  # otherwise SIGTERM may arrive first
    assert stop_process(psutil.Process(child.pid), 0.2) is False
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize("code", [SLEEP, IGNORE_SIGTERM])
def test_children_of_a_stopped_process_are_killed(code: str, start: Start) -> None:
    child = start(WITH_CHILD, code)
    grandchild = psutil.Process(int(child.ready))  # type: ignore[attr-defined]
    stop_process(psutil.Process(child.pid), TIMEOUT)
    assert not is_alive(grandchild)


def test_stopping_a_process_that_is_gone_is_harmless(start: Start) -> None:
    child = start(SLEEP)
    process = psutil.Process(child.pid)
    child.kill()
    child.wait(TIMEOUT)
    assert stop_process(process, TIMEOUT) is True


def test_a_detached_process_has_a_new_session_and_appends_to_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_VARIABLE", "a value")
    log = tmp_path / "logs" / "service.log"
    log.parent.mkdir()
    log.write_text("earlier\n")
    code = "import os, sys; print(os.environ['TEST_VARIABLE']); print('to stderr', file=sys.stderr)"
    process = start_detached(
        [sys.executable, "-c", f"{code}; sys.stdout.flush(); sys.stdin.read(); {SLEEP}"],
        log,
    )
    try:
        assert os.getsid(process.pid) != os.getsid(0)
        wait_until(lambda: "ready" in log.read_text(), seconds=TIMEOUT)
    finally:
        process.kill()
        process.wait(TIMEOUT)
    assert set(log.read_text().split("\n")) >= {"earlier", "a value", "to stderr", "ready"}


def test_a_process_with_a_pid_file_is_listed_until_it_ends(start: Start, tmp_path: Path) -> None:
    child = start(child_with_pid_file(tmp_path))
    assert [(name, process.pid) for name, process in pid_file_processes(tmp_path)] == [
        ("my-demo", child.pid)
    ]
    child.kill()  # no clean-up: the pid file stays
    child.wait(TIMEOUT)
    assert len(list((tmp_path / "run").glob("*.json"))) == 1
    assert pid_file_processes(tmp_path) == []
    assert list((tmp_path / "run").glob("*.json")) == []


def test_a_pid_file_is_removed_when_the_body_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with pid_file("demo", tmp_path):
            assert len(list((tmp_path / "run").glob("demo-*.json"))) == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "run").glob("*.json")) == []


def test_a_process_does_not_list_itself_so_that_a_demo_can_call_down(
    tmp_path: Path,
) -> None:
    with pid_file("demo", tmp_path):
        assert pid_file_processes(tmp_path) == []
        assert len(list((tmp_path / "run").glob("demo-*.json"))) == 1


def test_a_pid_file_whose_pid_was_reused_is_removed_and_the_process_kept(
    start: Start, tmp_path: Path
) -> None:
    process = psutil.Process(start(SLEEP).pid)
    file = write_pid_file(tmp_path, process, started=process.create_time() - 60)
    assert pid_file_processes(tmp_path) == []
    assert not file.exists()
    assert process.is_running()


def test_a_pid_file_with_the_right_start_time_matches(start: Start, tmp_path: Path) -> None:
    process = psutil.Process(start(SLEEP).pid)
    write_pid_file(tmp_path, process, started=process.create_time())
    assert pid_file_processes(tmp_path) == [("demo", process)]


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
def test_an_unreadable_pid_file_stops_nothing_and_is_removed(content: str, tmp_path: Path) -> None:
    file = tmp_path / "run" / "demo-1.json"
    file.parent.mkdir()
    file.write_text(content)
    assert pid_file_processes(tmp_path) == []
    assert not file.exists()


def test_a_home_that_does_not_exist_has_no_processes(tmp_path: Path) -> None:
    assert pid_file_processes(tmp_path / "not-there") == []


def test_down_stops_the_process_of_this_home_and_no_other(start: Start, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    demo = start(child_with_pid_file(mine))
    reused = psutil.Process(start(SLEEP).pid)
    write_pid_file(mine, reused, started=reused.create_time() - 60)
    others = [
        reused,
        psutil.Process(start(child_with_pid_file(other)).pid),
        psutil.Process(start(SLEEP, f"-Dheadwater.home={other}", f"headwater.home={other}").pid),
        psutil.Process(start(SLEEP, f"-Dheadwater.home={mine}2", f"headwater.home={mine}2").pid),
        # Programs that list or copy the folders of the home.
        psutil.Process(start(SLEEP, str(mine), str(mine / "kafka" / "data")).pid),
        psutil.Process(start(SLEEP, "-D", str(mine / "postgres" / "data")).pid),
    ]
    assert down(load(home=mine), wipe=True) == ["my-demo"]
    assert demo.poll() is not None
    assert not mine.exists()
    assert [process for process in others if not is_alive(process)] == []
    assert down(load(home=mine)) == []


def test_a_command_gets_its_input_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_VARIABLE", "x")
    output = tmp_path / "output"
    write = f"open({str(output)!r}, 'w').write(sys.stdin.read() + os.environ['TEST_VARIABLE'])"
    code = f"import os, sys; {write}"
    run_to_end([sys.executable, "-c", code], "the command", timeout_seconds=TIMEOUT, stdin="in")
    assert output.read_text() == "inx"


def test_the_error_of_a_failed_command_ends_with_its_output() -> None:
    code = "for n in range(100): print('line', n)\nraise SystemExit('reason')"
    with pytest.raises(ServiceStartError, match=r"^the command failed:\n") as caught:
        run_to_end([sys.executable, "-c", code], "the command", timeout_seconds=TIMEOUT)
    lines = caught.value.message.splitlines()
    assert lines[-2:] == ["line 99", "reason"]
    assert len(lines) <= 13


def test_output_that_is_not_utf_8_causes_no_second_error() -> None:
    code = r"import os; os.write(2, b'bad \xff byte'); raise SystemExit(1)"
    with pytest.raises(ServiceStartError, match="bad \ufffd byte"):
        run_to_end([sys.executable, "-c", code], "the command", timeout_seconds=TIMEOUT)


def test_a_command_that_hangs_is_killed_and_the_setting_is_named() -> None:
    with pytest.raises(ServiceStartError, match=r"did not finish within 0\.3 s") as caught:
        run_to_end([sys.executable, "-c", SLEEP], "the command", timeout_seconds=0.3)
    assert "HEADWATER_SERVICES__START_TIMEOUT_SECONDS" in (caught.value.hint or "")


def test_the_end_of_a_log_is_its_last_lines_even_with_invalid_bytes(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    assert end_of_log(log) == "(no log)"
    log.write_bytes(b"".join(b"line %d \xff\n" % n for n in range(100)))
    lines = end_of_log(log).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "line 99 \ufffd"
