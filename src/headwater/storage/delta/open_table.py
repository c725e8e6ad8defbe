"""A Delta table of Headwater's own, kept open without Spark.

Kept open, a look-up takes milliseconds; opening the table takes some tens of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.errors import HeadwaterError
from headwater.storage.delta.pruning import StatisticsFile

_BROKEN = (pa.ArrowException, DeltaError, OSError, ValueError, KeyError)

File = TypeVar("File", bound=StatisticsFile)


@dataclass(frozen=True)
class TableKind(Generic[File]):
    """What a table has to be, and what is said when it is not."""

    # As in `there is no archive`.
    name: str
    error: type[HeadwaterError]
    form: str
    form_property: str
    columns: Iterable[str]
    file: Callable[[Path, Mapping[str, Any]], File]
    # What to do about a table that is not there, is another one, can't be read.
    if_absent: str
    if_other: str
    if_damaged: str


class OpenTable(Generic[File]):
    """The table and its files, as of the last look."""

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
        self._check_form()
        self.files: Sequence[File] = []
        self._known: dict[str, File] = {}
        self._take_files()

    @property
    def properties(self) -> Mapping[str, str]:
        return self.delta.metadata().configuration

    @property
    def version(self) -> int:
        """The Delta version that is read."""
        return int(self.delta.version())

    def refresh(self) -> bool:
        """See what was written since; whether anything was."""
        version = self.version
        with self.reading():
            self.delta.update_incremental()
        if self.version == version:
            return False
        self._take_files()
        return True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While files are read: what goes wrong is told as damage of the table."""
        try:
            yield
        except _BROKEN as error:
            raise self._damaged(error) from error

    def _take_files(self) -> None:
        actions = pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()
        self.files = [self._known.get(a["path"]) or self._kind.file(self.path, a) for a in actions]
        self._known = {file.name: file for file in self.files}

    def _check_form(self) -> None:
        kind = self._kind
        form = self.properties.get(kind.form_property)
        names = {field.name for field in self.delta.schema().fields}
        missing = [name for name in kind.columns if name not in names]
        if form != kind.form or missing:
            what = f"its form is {form}"
            if missing:
                what = f"columns are missing: {', '.join(missing)}"
            raise self._error(
                f"{self.path} is a Delta table, but no {kind.name} of form {kind.form}: {what}",
                kind.if_other,
            )

    def _damaged(self, error: Exception) -> HeadwaterError:
        text = str(error).strip().splitlines() or [type(error).__name__]
        said = f"the {self._kind.name} {self.path} can't be read: {text[0]}"
        return self._error(said, self._kind.if_damaged)

    def _error(self, text: str, hint: str) -> HeadwaterError:
        return self._kind.error(text, hint=hint, path=str(self.path))
