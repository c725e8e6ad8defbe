"""Names of Delta tables, as Spark takes them."""

from __future__ import annotations

from pathlib import Path


def location(path: Path) -> str:
    """A table's folder as Spark takes it."""
    # With its scheme: a bare path would be one of the cluster's default file system.
    return f"file://{path}"


def sql_name(path: Path) -> str:
    """A table's folder as SQL takes it."""
    return f"delta.`{location(path).replace('`', '``')}`"
