"""The name of a table as a target."""

from __future__ import annotations

from pathlib import Path

from headwater.replay.plan import TABLE_PREFIX


def table_path(target: str) -> Path:
    """The folder of the table that a plan names as its target."""
    return Path(target.removeprefix(TABLE_PREFIX)).absolute()


def table_target(path: Path) -> str:
    """How a plan names it."""
    return f"{TABLE_PREFIX}{path.expanduser().absolute()}"
