"""Notes of batch applications whose run has not ended, in the spool folder.

The process of an application locks its note. A note without a lock is of a process that was killed:
the next application that uses the same spool ends its run.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from headwater.model.local_files import lock, state_folder
from headwater.openlineage.run import Emit, LineageRun, OpenRun
from headwater.settings import Settings

_PREFIX, _SUFFIX = "application-", ".json"


class OpenApplicationNote:
    """The note of this process's run. Errors are ignored: at worst, a run stays open."""

    def __init__(self, settings: Settings) -> None:
        self._folder = _folder(settings)
        self._path: Path | None = None
        self._handle: int | None = None

    def write(self, run: LineageRun, started_at: str) -> None:
        path = self._folder / f"{_PREFIX}{run.run_id}{_SUFFIX}"
        note = OpenRun(run.run_id, run.job_namespace, run.job_name, started_at)
        with suppress(OSError):
            state_folder(path.parents[2], path.parents[1].name)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            # Locked before it has its name: a reader would take it for that of a dead process.
            unfinished = path.with_suffix(f".{os.getpid()}.tmp")
            self._handle = os.open(unfinished, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
            lock(self._handle)
            os.write(self._handle, json.dumps(asdict(note)).encode())
            os.replace(unfinished, path)
            self._path = path

    def clear(self) -> None:
        with suppress(OSError):
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        with suppress(OSError):
            if self._handle is not None:
                os.close(self._handle)
        self._path = self._handle = None


def end_killed_applications(settings: Settings, emit: Emit) -> list[OpenRun]:
    """Emit ABORT for the runs of processes that were killed; returns them."""
    ended = []
    for path in sorted(_folder(settings).glob(f"{_PREFIX}*{_SUFFIX}")):
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            try:
                run = _claim(path, handle)
            finally:
                os.close(handle)
            if run is not None:
                killed = LineageRun(emit, run.job_namespace, run.job_name, run.run_id)
                killed.abort("the process ended without a final event")
                ended.append(run)
    return ended


def _claim(path: Path, handle: int) -> OpenRun | None:
    """The run of a note that no process holds; removes the note."""
    with suppress(BlockingIOError):
        lock(handle)
        text = os.read(handle, 64 * 1024)
        path.unlink()
        with suppress(ValueError, TypeError):
            return OpenRun(**json.loads(text))
    return None


def _folder(settings: Settings) -> Path:
    return settings.spool_dir / "open-runs"
