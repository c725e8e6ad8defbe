"""One driver per checkpoint: a second one is refused, and told who holds it.

Two locks, both of the operating system, which end with their processes; so a start after
kill -9 waits for nothing that has to expire. Python's says that a job runs. The JVM's says that
something may still write: a JVM whose Python was killed goes on for a moment.
"""

from __future__ import annotations

import fcntl
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
from headwater.storage.checkpoint import read_progress

# A JVM that lost its Python ends within seconds; it finishes the write that is under way first.
_DYING_JVM_SECONDS = 60.0
_left_behind: set[Path] = set()


@contextmanager
def lease(checkpoint: Path, spark: SparkSession) -> Iterator[None]:
    """Hold the checkpoint while the body runs.

    Raises:
        CheckpointInUseError: another process holds it.
    """
    if checkpoint.absolute() in _left_behind:
        raise CheckpointInUseError(
            f"{checkpoint}: a batch was cut off in this process, which may still be writing it",
            hint="go on in a new process; `headwater run --restarts N` does that",
            checkpoint=str(checkpoint),
        )
    folder = checkpoint / "headwater"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lease").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refused(checkpoint, folder / "holder") from None
        (folder / "holder").write_text(
            json.dumps({"host": socket.gethostname(), "pid": os.getpid()})
        )
        with _held_by_the_jvm(folder / "jvm-lease", checkpoint, spark):
            yield


def lease_if_local(
    checkpoint: Path | str, spark: SparkSession
) -> AbstractContextManager[None, bool | None]:
    """Hold a checkpoint that is a local folder; one elsewhere has no lock to hold."""
    return lease(checkpoint, spark) if isinstance(checkpoint, Path) else nullcontext()


@contextmanager
def only_writer(
    table: Path, spark: SparkSession, refused: Callable[[str], HeadwaterError]
) -> Iterator[None]:
    """Hold a table that has one writer while the body runs.

    Args:
        refused: makes the error to raise when another process holds it, of what is known of it.
    """
    with ExitStack() as stack:
        try:
            # A folder that begins with an underscore is none of the table's.
            stack.enter_context(lease(table / "_writer", spark))
        except CheckpointInUseError as error:
            raise refused(error.message) from error
        yield


@contextmanager
def _held_by_the_jvm(path: Path, checkpoint: Path, spark: SparkSession) -> Iterator[None]:
    jvm: Any = spark._jvm  # noqa: SLF001
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    try:
        deadline = time.monotonic() + _DYING_JVM_SECONDS
        while file.getChannel().tryLock() is None:
            if time.monotonic() > deadline:
                raise CheckpointInUseError(
                    f"{checkpoint}: the JVM of an earlier driver has not ended after "
                    f"{_DYING_JVM_SECONDS:g} s",
                    hint="look for a java process of that job and end it",
                    checkpoint=str(checkpoint),
                )
            time.sleep(0.1)
        yield
    finally:
        if read_progress(checkpoint).cut_off is None:
            file.close()
        else:
            # Spark's producer may still send what it holds of that batch: the lock stays until
            # the JVM ends, and this process begins nothing on the checkpoint any more.
            _left_behind.add(checkpoint.absolute())


def _refused(checkpoint: Path, file: Path) -> CheckpointInUseError:
    try:
        holder = json.loads(file.read_text())
        who = f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return CheckpointInUseError(
        f"{checkpoint} is in use by {who}",
        hint="stop it first, or give this job a checkpoint of its own with --checkpoint",
        checkpoint=str(checkpoint),
    )
