"""A checkpoint on a file system that only Spark can reach, such as `s3a://bucket/folder`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.storage.checkpoint import IDENTITY_FILE
from headwater.storage.failed_records import FAILED_RECORDS_FILE


@contextmanager
def copied_checkpoint(checkpoint: str, spark: SparkSession) -> Iterator[Path]:
    """A local copy of what a start compares; files that the body has changed are written back, if
    it raises no error."""
    remote = _RemoteFolder(checkpoint, spark)
    with tempfile.TemporaryDirectory(prefix="headwater-checkpoint-") as folder:
        copy = Path(folder)
        before = {}
        for name in _needed(remote):
            text = remote.read(name)
            if text is not None:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                (copy / name).write_text(text)
                before[name] = text
        yield copy
        for file in sorted(path for path in copy.rglob("*") if path.is_file()):
            name = str(file.relative_to(copy))
            if before.get(name) != file.read_text():
                remote.write(name, file.read_text())


def _needed(remote: _RemoteFolder) -> Iterator[str]:
    yield from ("metadata", str(IDENTITY_FILE), str(FAILED_RECORDS_FILE))
    for folder in ("offsets", "commits"):
        # The newest offsets may be those of an interrupted batch; the ones before are committed.
        batches = sorted(int(name) for name in remote.names(folder) if name.isdigit())
        yield from (f"{folder}/{batch}" for batch in batches[-2:])
    yield from (f"sources/{source}/0" for source in remote.names("sources"))


class _RemoteFolder:
    def __init__(self, location: str, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001
        context: Any = spark.sparkContext._jsc  # noqa: SLF001
        self._location = location.rstrip("/")
        self._files = self._path("").getFileSystem(context.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}")

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(path)]

    def read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._files.exists(path):
            return None
        content = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(content, "UTF-8"))
        finally:
            content.close()

    def write(self, name: str, text: str) -> None:
        output = self._files.create(self._path(name), True)
        try:
            output.write(bytearray(text.encode()))
        finally:
            output.close()
