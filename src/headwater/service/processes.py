"""Finds, starts and stops the processes of one Headwater home.

A service is identified by its user, its executable and an argument that contains the absolute path
of its home (`ownership.py`). That is safe against stale pids and against a kill right after the
start, and processes of other users, homes or programs never match. Python processes (the demo)
write a pid file with their start time instead.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from headwater.errors import ServiceStartError
from headwater.model.local_files import state_folder
from headwater.service.log_file import rotate
from headwater.service.ownership import is_own
from headwater.settings import child_environment

_LOG_LINES_SHOWN = 12

# Files of a service, and files that it creates, are private.
_UMASK = 0o077

# $0 is the log, the arguments are the command.
_DETACH = '"$@" >>"$0" 2>&1 </dev/null & echo $!'


def start_detached(command: Sequence[str], log: Path, *, cwd: Path | None = None) -> psutil.Process:
    """Start a process that outlives this one, in a new session, with its output in `log`.

    A shell starts it and exits, so that it is not a child of this process and never becomes its
    zombie.
    """
    state_folder(log.parents[1], log.parent.name)
    rotate(log)
    started = subprocess.run(
        ["/bin/sh", "-c", _DETACH, str(log), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        umask=_UMASK,
        cwd=cwd,
        check=True,
        text=True,
        timeout=30,
    )
    try:
        return psutil.Process(int(started.stdout))
    except psutil.NoSuchProcess:
        raise ServiceStartError(
            f"{Path(command[0]).name} exited immediately; its log {log} ends with:\n"
            f"{end_of_log(log)}"
        ) from None


def run_to_end(
    command: Sequence[str],
    what: str,
    *,
    timeout_seconds: float,
    stdin: str = "",
    cwd: Path | None = None,
) -> str:
    """Run a command and wait for it; returns its output.

    Raises:
        ServiceStartError: it failed or timed out; contains the end of its output.
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
            umask=_UMASK,
            cwd=cwd,
            env=child_environment(),
        )
    except subprocess.TimeoutExpired:
        raise ServiceStartError(
            f"{what} did not finish within {timeout_seconds:g} s",
            hint="raise HEADWATER_SERVICES__START_TIMEOUT_SECONDS",
        ) from None
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip().splitlines()[-_LOG_LINES_SHOWN:]
        raise ServiceStartError(f"{what} failed:\n" + "\n".join(output))
    return done.stdout + done.stderr


def stop_process(process: psutil.Process, timeout_seconds: float) -> bool:
    """Terminate the process, then kill it and its children. Returns whether SIGTERM was enough."""
    with suppress(psutil.NoSuchProcess):
        children = process.children(recursive=True)
        process.terminate()
        gone, alive = psutil.wait_procs([process], timeout=timeout_seconds)
        for remaining in alive + [child for child in children if child.is_running()]:
            with suppress(psutil.NoSuchProcess):
                remaining.kill()
        psutil.wait_procs(alive + children, timeout=5)
        return bool(gone)
    return True


def end_of_log(log: Path) -> str:
    """The last lines of a log, for an error message."""
    if not log.is_file():
        return "(no log)"
    lines = log.read_text(errors="replace").splitlines()
    # Frames of Java stack traces are left out.
    return "\n".join([line for line in lines if not line.startswith("\tat ")][-_LOG_LINES_SHOWN:])


@contextmanager
def pid_file(name: str, home: Path) -> Iterator[None]:
    """Keep a pid file while the body runs, by which `headwater down` finds this process."""
    process = psutil.Process()
    content = {"name": name, "pid": process.pid, "started": process.create_time()}
    file = state_folder(home, "run") / f"{name}-{process.pid}.json"
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def pid_file_processes(home: Path) -> list[tuple[str, psutil.Process]]:
    """Running processes with a pid file, except this one; removes the pid files of dead ones."""
    processes: list[tuple[str, psutil.Process]] = []
    for file in sorted((home / "run").glob("*.json")):
        process = _process_of(file)
        if process is None:
            file.unlink(missing_ok=True)
        elif process.pid != os.getpid():
            processes.append((file.name.rpartition("-")[0], process))
    return processes


def _process_of(file: Path) -> psutil.Process | None:
    try:
        content = json.loads(file.read_text())
        process = psutil.Process(int(content["pid"]))
        # Pids are reused; the start time distinguishes the processes.
        same = abs(process.create_time() - float(content["started"])) < 1
        return process if same and is_own(process) and process.is_running() else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None
