"""A Delta table of Headwater, kept open without Spark.

A lookup in an open table takes milliseconds; opening the table takes some tens of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, PostCommitHookProperties, RemoveAction

from headwater.errors import HeadwaterError
from headwater.storage.delta.pruning import StatisticsFile

# What `replace_files` raises.
CommitRefused = DeltaError
_BROKEN = (pa.ArrowException, DeltaError, OSError, ValueError, KeyError)

File = TypeVar("File", bound=StatisticsFile)

PartitionValues = dict[str, str | None]
# Path in the table, bytes and partition; of an added file also its statistics.
RemovedFile = tuple[str, int, PartitionValues]
AddedFile = tuple[str, int, PartitionValues, Mapping[str, Any]]


@dataclass(frozen=True)
class TableKind(Generic[File]):
    """The expected kind of a table, and hints for tables that are not of this kind."""

    # As in `there is no archive`.
    name: str
    error: type[HeadwaterError]
    format_version: str
    format_property: str
    columns: Iterable[str]
    file: Callable[[Path, Mapping[str, Any]], File]
    # Hints for a table that is missing, of another kind, or unreadable.
    if_absent: str
    if_other: str
    if_damaged: str


def transaction_version(path: Path, application: str) -> int | None:
    """The newest version that an application, such as a streaming query, has committed to a Delta
    table; None if there is none."""
    version = DeltaTable(str(path)).transaction_version(application)
    return None if version is None else int(version)


class OpenTable(Generic[File]):
    """The table and its files, as of the last refresh."""

    def __init__(self, path: Path, kind: TableKind[File]) -> None:
        """Open the table.

        Raises:
            HeadwaterError: the kind's; there is none, or it is damaged or another table.
        """
        self.path = path
        self._kind = kind
        try:
            self.delta = DeltaTable(str(path))
        except TableNotFoundError:
            raise self._error(f"there is no {kind.name}: {path}", kind.if_absent) from None
        except _BROKEN as error:
            raise self._damaged(error) from error
        self._check_format()
        self.files: Sequence[File] = []
        self._known: dict[str, File] = {}
        self._load_files()

    @property
    def properties(self) -> Mapping[str, str]:
        return self.delta.metadata().configuration

    @property
    def version(self) -> int:
        """The Delta version that is read."""
        return int(self.delta.version())

    def refresh(self) -> bool:
        """Load the newest version; returns whether there is a new one."""
        version = self.version
        with self.reading():
            self.delta.update_incremental()
        if self.version == version:
            return False
        self._load_files()
        return True

    def replace_files(
        self, removed: Iterable[RemovedFile], added: Iterable[AddedFile], now_ms: int
    ) -> None:
        """Replace files by others with the same rows, in one commit.

        `data_change` is false: streams that read the table skip the commit.

        Raises:
            DeltaError: the commit is refused, such as for a feature that is not supported.
        """
        actions: list[AddAction | RemoveAction] = [
            *(RemoveAction(name, False, now_ms, size, values) for name, size, values in removed),
            *(
                AddAction(name, size, values, now_ms, False, json.dumps(statistics))
                for name, size, values, statistics in added
            ),
        ]
        self.delta.create_write_transaction(
            actions,
            "append",
            self.delta.schema(),
            partition_by=self.delta.metadata().partition_columns,
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=False, cleanup_expired_logs=False
            ),
        )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise errors of the body as damage of the table."""
        try:
            yield
        except _BROKEN as error:
            raise self._damaged(error) from error

    def _load_files(self) -> None:
        actions = pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()
        self.files = [self._known.get(a["path"]) or self._kind.file(self.path, a) for a in actions]
        self._known = {file.name: file for file in self.files}

    def _check_format(self) -> None:
        kind = self._kind
        version = self.properties.get(kind.format_property)
        names = {field.name for field in self.delta.schema().fields}
        missing = [name for name in kind.columns if name not in names]
        if version != kind.format_version or missing:
            what = f"its format is {version}"
            if missing:
                what = f"columns are missing: {', '.join(missing)}"
            raise self._error(
                f"{self.path} is a Delta table, but not an {kind.name} of format "
                f"{kind.format_version}: {what}",
                kind.if_other,
            )

    def _damaged(self, error: Exception) -> HeadwaterError:
        text = str(error).strip().splitlines() or [type(error).__name__]
        message = f"the {self._kind.name} {self.path} can't be read: {text[0]}"
        return self._error(message, self._kind.if_damaged)

    def _error(self, text: str, hint: str) -> HeadwaterError:
        return self._kind.error(text, hint=hint, path=str(self.path))
