"""One driver per checkpoint, and one writer per table: locks that end with their processes."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.errors import CheckpointInUseError, HeadwaterError
from headwater.model.local_files import locked
from headwater.storage.checkpoint import read_progress

# A JVM whose Python process died exits within seconds, after the write in progress.
_JVM_EXIT_TIMEOUT_SECONDS = 60.0
_unfinished: set[Path] = set()


@contextmanager
def lease(checkpoint: Path, spark: SparkSession) -> Iterator[None]:
    """Hold the checkpoint while the body runs.

    Two locks of the operating system, which end with their processes, so a start after kill -9
    waits for no timeout. Python's lock means that a job runs. The JVM's lock means that something
    may still be written: a JVM whose Python process was killed continues for a moment.

    Raises:
        CheckpointInUseError: another process holds it.
    """
    if checkpoint.absolute() in _unfinished:
        raise CheckpointInUseError(
            f"{checkpoint}: a batch was interrupted in this process, which may still be writing it",
            hint="restart in a new process; `headwater run --restarts N` does that",
            checkpoint=str(checkpoint),
        )
    folder = checkpoint / "headwater"
    with locked(folder / "lease", lambda: _in_use(checkpoint, folder / "holder")):
        (folder / "holder").write_text(
            json.dumps({"host": socket.gethostname(), "pid": os.getpid()})
        )
        with _jvm_lock(folder / "jvm-lease", checkpoint, spark):
            yield


def lease_if_local(
    checkpoint: Path | str, spark: SparkSession
) -> AbstractContextManager[None, bool | None]:
    """Hold a checkpoint in a local folder; others can't be locked."""
    return lease(checkpoint, spark) if isinstance(checkpoint, Path) else nullcontext()


@contextmanager
def only_writer(
    table: Path, spark: SparkSession, refused: Callable[[str], HeadwaterError]
) -> Iterator[None]:
    """Hold a table that has one writer while the body runs.

    Args:
        refused: builds the error if another process holds it, from a description of the holder.
    """
    with ExitStack() as stack:
        try:
            # Table readers ignore folders that start with an underscore.
            stack.enter_context(lease(table / "_writer", spark))
        except CheckpointInUseError as error:
            raise refused(error.message) from error
        yield


@contextmanager
def _jvm_lock(path: Path, checkpoint: Path, spark: SparkSession) -> Iterator[None]:
    jvm: Any = spark._jvm  # noqa: SLF001
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    try:
        deadline = time.monotonic() + _JVM_EXIT_TIMEOUT_SECONDS
        while file.getChannel().tryLock() is None:
            if time.monotonic() > deadline:
                raise CheckpointInUseError(
                    f"{checkpoint}: the JVM of an earlier driver has not exited after "
                    f"{_JVM_EXIT_TIMEOUT_SECONDS:g} s",
                    hint="find the java process of that job and stop it",
                    checkpoint=str(checkpoint),
                )
            time.sleep(0.1)
        yield
    finally:
        if read_progress(checkpoint).cut_off is None:
            file.close()
        else:
            # Spark's producer may still send buffered records of that batch: the lock stays until
            # the JVM exits, and this process does not use the checkpoint again.
            _unfinished.add(checkpoint.absolute())


def _in_use(checkpoint: Path, file: Path) -> CheckpointInUseError:
    try:
        holder = json.loads(file.read_text())
        process = f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        process = "another process"
    return CheckpointInUseError(
        f"{checkpoint} is in use by {process}",
        hint="stop it first, or choose another --checkpoint",
        checkpoint=str(checkpoint),
    )
