"""Where a query began to read: of its first batch Spark tells only the end."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.spark.session import running_session
from headwater.storage.checkpoint import Offsets, read_started, started_offsets


def first_offsets(checkpoint: Path | str | None, seconds: float) -> Offsets:
    """From the checkpoint, wherever it lies; none if it can't be read, or not in this time."""
    found: list[Offsets] = []

    def read() -> None:
        with suppress(Exception):
            if isinstance(checkpoint, Path):
                found.append(read_started(checkpoint))
            elif checkpoint:
                found.append(_read_by_hadoop(checkpoint))

    if isinstance(checkpoint, Path):
        read()
    else:
        # A store that hangs must not hold up a batch.
        reader = threading.Thread(target=read, name="lineage-begin", daemon=True)
        with suppress(RuntimeError):  # None can be started while the interpreter ends.
            reader.start()
            reader.join(seconds)
    return found[0] if found else {}


def _read_by_hadoop(checkpoint: str) -> Offsets:
    spark = running_session()
    if spark is None:
        return {}
    jvm: Any = spark._jvm  # noqa: SLF001
    context: Any = spark.sparkContext._jsc  # noqa: SLF001
    folder = jvm.org.apache.hadoop.fs.Path(checkpoint, "sources")
    files = folder.getFileSystem(context.hadoopConfiguration())
    found = []
    for source in files.listStatus(folder):
        path = jvm.org.apache.hadoop.fs.Path(source.getPath(), "0")
        if not files.exists(path):
            # Of a source that is none of Kafka's.
            continue
        content = files.open(path)
        try:
            text = str(jvm.org.apache.commons.io.IOUtils.toString(content, "UTF-8"))
        finally:
            content.close()
        found.append(text.splitlines())
    return started_offsets(found)
