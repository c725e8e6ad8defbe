"""Tables whose rows carry lineage, read without Spark: how many rows came of given records.

Kept open, files that were looked at before are not opened again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headwater.errors import LineageTableError, NotInstalledError
from headwater.storage.tables.contract import COLUMN, FIELDS
from headwater.storage.tables.registry import KnownTable

try:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import FileScanTask, StaticTable
except ImportError as error:
    raise NotInstalledError(
        f"reading tables needs a package that is not installed: {error.name}",
        hint='pip install "headwater[index]"',
        package=error.name,
    ) from None

from headwater.model import JobOutput, TopicPartition
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.files import MAKER_FIELDS, PARENT_FIELDS, LineageFile, flat
from headwater.storage.tables.rows import rows_made_from, rows_of_job

_BROKEN = (pa.ArrowException, DeltaError, ValidationError, OSError, ValueError, KeyError)


@dataclass(frozen=True, slots=True)
class Found:
    """Rows of a table that were asked for; `made` are those that the job itself made."""

    rows: int
    made: int


class _Files(Protocol):
    """The present content of a table."""

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]: ...


class LineageTable:
    """A table that may hold rows with lineage; opened when it is first asked."""

    def __init__(self, known: KnownTable) -> None:
        self.name = known.name
        self._location = Path(known.location)
        self._seen: dict[str, LineageFile] = {}

    def find(
        self, parents: Mapping[TopicPartition, OffsetRanges], asked: JobOutput | None
    ) -> Found:
        """Count the rows of which a parent is among these, or that the job made.

        Raises:
            LineageTableError: it can't be read; says why.
        """
        fields = PARENT_FIELDS if asked is None else (*PARENT_FIELDS, *MAKER_FIELDS)
        rows = own = 0
        with self._reading():
            for lineage in self._files().lineage(fields, parents if asked is None else None):
                found = rows_made_from(lineage, parents)
                if asked is not None:
                    made = rows_of_job(lineage, asked)
                    own += int(made.sum())
                    found |= made
                rows += int(found.sum())
        return Found(rows, own)

    def _files(self) -> _Files:
        if (self._location / "_delta_log").is_dir():
            return _DeltaFiles(self._location, self._seen)
        if (self._location / "metadata").is_dir():
            return _IcebergFiles(self._location, self._seen)
        raise LineageTableError(
            f"{self._location} holds no Delta and no Iceberg table",
            hint="HEADWATER_INDEX__TABLES names folders of tables",
            table=self.name,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise LineageTableError(
                f"table {self.name} can't be read without Spark: {text[0]}", table=self.name
            ) from error


class _DeltaFiles:
    def __init__(self, location: Path, seen: dict[str, LineageFile]) -> None:
        table = DeltaTable(str(location))
        _check_column(str(location), [field.name for field in table.schema().fields])
        features = table.protocol().reader_features or []
        if "deletionVectors" in features:
            raise ValueError("it may have deletion vectors, which are read by Spark only")
        self._files = [_seen(seen, Path(uri.removeprefix("file://"))) for uri in table.file_uris()]

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]:
        for file in self._files:
            yield from file.lineage(fields, parents)


class _IcebergFiles:
    def __init__(self, location: Path, seen: dict[str, LineageFile]) -> None:
        self._table = StaticTable.from_metadata(str(_newest_metadata(location)))
        _check_column(str(location), [field.name for field in self._table.schema().fields])
        self._seen = seen

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]:
        for task in self._table.scan().plan_files():
            if task.delete_files:
                yield flat(self._without_deleted(task), fields)
            else:
                path = Path(task.file.file_path.removeprefix("file:"))
                yield from _seen(self._seen, path).lineage(fields, parents)

    def _without_deleted(self, task: FileScanTask) -> pa.Table:
        table = self._table
        wanted = table.schema().select(COLUMN)
        return ArrowScan(table.metadata, table.io, wanted, AlwaysTrue()).to_table([task])


def _newest_metadata(location: Path) -> Path:
    """Of a catalog that keeps a hint, the one it names; of others the one with most commits."""
    folder = location / "metadata"
    hint = folder / "version-hint.text"
    if hint.is_file():
        return folder / f"v{hint.read_text().strip()}.metadata.json"
    files = sorted(folder.glob("[0-9]*-*.metadata.json"))
    if not files:
        raise ValueError(f"{folder} holds no metadata of a table")
    return files[-1]


def _seen(known: dict[str, LineageFile], path: Path) -> LineageFile:
    return known.setdefault(str(path), LineageFile(path))


def _check_column(location: str, names: Sequence[str]) -> None:
    if COLUMN not in names:
        raise ValueError(f"{location} has no column `{COLUMN}` ({', '.join(FIELDS)})")
