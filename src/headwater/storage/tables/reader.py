"""Tables with lineage, read without Spark: counts the rows that were made from given records.

Files that were read before are kept open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headwater.errors import LineageTableError, NotInstalledError
from headwater.model.local_files import local_path
from headwater.storage.tables.contract import COLUMNS
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
from headwater.storage.tables.files import (
    PARENT_FIELDS,
    PRODUCER_FIELDS,
    LineageFile,
    flat,
    rows_made_from,
    rows_of_job,
    rows_within,
)

_COLUMN_MAPPING = "delta.columnMapping.mode"
_BROKEN = (pa.ArrowException, DeltaError, ValidationError, OSError, ValueError, KeyError)


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Number of matching rows; `made` is the number of rows that the job itself made; `within` may
    match: ranges contain their parents."""

    rows: int
    made: int
    within: int = 0


class _Files(Protocol):
    """The current files of a table."""

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]: ...


class LineageTable:
    """A table that may have rows with lineage; opened on first use."""

    def __init__(self, known: KnownTable) -> None:
        self.name = known.name
        self._location = Path(known.location)
        self._files_by_path: dict[str, LineageFile] = {}

    def find(
        self,
        parents: Mapping[TopicPartition, OffsetRanges],
        job: JobOutput | None,
        within: Mapping[TopicPartition, OffsetRanges] | None = None,
    ) -> MatchingRows:
        """Count the rows with a parent among these, or that the job made.

        Args:
            within: records of which is not certain whether they count as parents, too.

        Raises:
            LineageTableError: the table can't be read.
        """
        fields = PARENT_FIELDS if job is None else (*PARENT_FIELDS, *PRODUCER_FIELDS)
        rows = own = uncertain = 0
        possible = dict(parents)
        for partition, offsets in (within or {}).items():
            known = possible.get(partition)
            possible[partition] = offsets if known is None else known | offsets
        with self._reading():
            for lineage in self._files().lineage(fields, possible if job is None else None):
                matching = rows_made_from(lineage, parents)
                if job is not None:
                    made = rows_of_job(lineage, job)
                    own += int(made.sum())
                    matching |= made
                rows += int(matching.sum())
                may_match = rows_within(lineage, possible)
                if within:
                    may_match |= rows_made_from(lineage, within)
                uncertain += int((may_match & ~matching).sum())
        return MatchingRows(rows, own, uncertain)

    def _files(self) -> _Files:
        if (self._location / "_delta_log").is_dir():
            return _DeltaFiles(self._location, self._files_by_path)
        if (self._location / "metadata").is_dir():
            return _IcebergFiles(self._location, self._files_by_path)
        raise LineageTableError(
            f"{self._location} is neither a Delta nor an Iceberg table",
            hint="HEADWATER_INDEX__TABLES lists the folders of tables",
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
    def __init__(self, location: Path, known: dict[str, LineageFile]) -> None:
        table = DeltaTable(str(location))
        column = _column_of(str(location), [field.name for field in table.schema().fields])
        features = table.protocol().reader_features or []
        if "deletionVectors" in features:
            raise ValueError("it may have deletion vectors, which only Spark reads")
        if table.metadata().configuration.get(_COLUMN_MAPPING, "none") != "none":
            raise ValueError("its files have other names of columns, which only Spark reads")
        self._files = [_lineage_file(known, uri, column) for uri in table.file_uris()]

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]:
        for file in self._files:
            yield from file.lineage(fields, parents)


class _IcebergFiles:
    def __init__(self, location: Path, known: dict[str, LineageFile]) -> None:
        self._table = StaticTable.from_metadata(str(_newest_metadata(location)))
        names = [field.name for field in self._table.schema().fields]
        self._column = _column_of(str(location), names)
        self._files_by_path = known

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]:
        for task in self._table.scan().plan_files():
            file = _lineage_file(self._files_by_path, task.file.file_path, self._column)
            # In a file the column may have a former name.
            if task.delete_files or not file.has_column:
                yield flat(self._without_deleted(task), fields, self._column)
            else:
                yield from file.lineage(fields, parents)

    def _without_deleted(self, task: FileScanTask) -> pa.Table:
        table = self._table
        wanted = table.schema().select(self._column)
        return ArrowScan(table.metadata, table.io, wanted, AlwaysTrue()).to_table([task])


def _newest_metadata(location: Path) -> Path:
    """The file that the version hint names, if there is one; else the one with most commits."""
    folder = location / "metadata"
    hint = folder / "version-hint.text"
    if hint.is_file():
        return folder / f"v{hint.read_text().strip()}.metadata.json"
    files = sorted(folder.glob("[0-9]*-*.metadata.json"))
    if not files:
        raise ValueError(f"{folder} has no table metadata")
    return files[-1]


def _lineage_file(known: dict[str, LineageFile], location: str, column: str) -> LineageFile:
    path = local_path(location)
    if path is None:
        raise ValueError(f"{location} is not a local file")
    return known.setdefault(f"{column} {path}", LineageFile(path, column))


def _column_of(location: str, names: Sequence[str]) -> str:
    for name in names:
        if name in COLUMNS:
            return name
    raise ValueError(f"{location} has no column {' or '.join(f'`{name}`' for name in COLUMNS)}")
