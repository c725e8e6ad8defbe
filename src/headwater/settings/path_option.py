"""The type of command-line options that are local paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headwater.model.local_files import local_folder


class PathOption(click.Path):
    """The type of an option or argument that is a local path."""

    def __init__(
        self,
        *,
        exists: bool = False,
        file_okay: bool = True,
        dir_okay: bool = True,
        table: bool = False,
    ) -> None:
        super().__init__(exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)
        self._table = table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            path = local_folder(value, table=self._table)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(path, param, ctx)
