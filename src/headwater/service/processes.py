"""Finding, starting and stopping the processes that belong to one Headwater home.

A service is recognised by an argument on its command line that holds the absolute path of its
home, so that neither a stale pid nor a kill between start and note-taking can mislead, and
nothing that another home or another program started is ever touched. Python processes (the
demo) leave a note with their pid and start time instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from headwater.errors import ServiceStartError
from headwater.settings import child_environment

_LOG_LINES_SHOWN = 12

# $0 is the log, the arguments are the command.
_DETACH = '"$@" >>"$0" 2>&1 </dev/null & echo $!'


def find_process(marker: str) -> psutil.Process | None:
    """The process with `marker` as one whole argument, if it runs."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if marker in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                return process
    return None


def start_detached(command: Sequence[str], log: Path) -> psutil.Process:
    """Start a process that outlives this one, in a session of its own, output to `log`.

    A shell starts it and ends, so that it is nobody's child here: Python neither waits for it
    nor keeps it as a zombie when it ends.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = subprocess.run(
        ["/bin/sh", "-c", _DETACH, str(log), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
        text=True,
        timeout=30,
    )
    try:
        return psutil.Process(int(started.stdout))
    except psutil.NoSuchProcess:
        raise ServiceStartError(
            f"{Path(command[0]).name} ended at once; its log {log} ends with:\n{end_of_log(log)}"
        ) from None


def run_to_end(
    command: Sequence[str],
    what: str,
    *,
    timeout_seconds: float,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a helper of a service and wait for it.

    Raises:
        ServiceStartError: it failed or took too long; holds the end of its output.
    """
    try:
        done = subprocess.run(
            list(command),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            check=False,
            env=child_environment(**(environment or {})),
        )
    except subprocess.TimeoutExpired:
        raise ServiceStartError(
            f"{what} did not end within {timeout_seconds:g} s",
            hint="raise HEADWATER_SERVICES__START_TIMEOUT_SECONDS",
        ) from None
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip().splitlines()[-_LOG_LINES_SHOWN:]
        raise ServiceStartError(f"{what} failed:\n" + "\n".join(output))


def stop_process(process: psutil.Process, timeout_seconds: float) -> bool:
    """Ask the process to end, then kill it and its children; tells whether it ended by itself."""
    with suppress(psutil.NoSuchProcess):
        children = process.children(recursive=True)
        process.terminate()
        gone, alive = psutil.wait_procs([process], timeout=timeout_seconds)
        for left in alive + [child for child in children if child.is_running()]:
            with suppress(psutil.NoSuchProcess):
                left.kill()
        psutil.wait_procs(alive + children, timeout=5)
        return bool(gone)
    return True


def end_of_log(log: Path) -> str:
    """The last lines of a log, for an error message."""
    if not log.is_file():
        return "(no log)"
    lines = log.read_text(errors="replace").splitlines()
    # Of a Java stack trace only the first line says what happened.
    return "\n".join([line for line in lines if not line.startswith("\tat ")][-_LOG_LINES_SHOWN:])


@contextmanager
def noted(name: str, home: Path) -> Iterator[None]:
    """While the body runs, `headwater down` knows this process and would stop it."""
    me = psutil.Process()
    note = home / "run" / f"{name}-{me.pid}.json"
    note.parent.mkdir(parents=True, exist_ok=True)
    unfinished = note.with_suffix(".tmp")
    unfinished.write_text(json.dumps({"name": name, "pid": me.pid, "started": me.create_time()}))
    unfinished.replace(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def noted_processes(home: Path) -> list[tuple[str, psutil.Process]]:
    """Processes that left a note and still run; notes of dead ones are removed."""
    found: list[tuple[str, psutil.Process]] = []
    for note in sorted((home / "run").glob("*.json")):
        process = _process_of(note)
        if process is None:
            note.unlink(missing_ok=True)
        elif process.pid != os.getpid():
            found.append((note.name.rpartition("-")[0], process))
    return found


def _process_of(note: Path) -> psutil.Process | None:
    try:
        content = json.loads(note.read_text())
        process = psutil.Process(int(content["pid"]))
        # A pid is reused sooner or later; the start time tells the two apart.
        same = abs(process.create_time() - float(content["started"])) < 1
        return process if same and process.is_running() else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def wait_until_gone(marker: str, timeout_seconds: float) -> bool:
    """Wait until no process carries the marker any more."""
    deadline = time.monotonic() + timeout_seconds
    while find_process(marker) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
