"""Writing Delta tables with Spark: names of tables, and settings for the time of a write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession


def location(path: Path) -> str:
    """A table's folder as Spark takes it."""
    # With its scheme: a bare path would be one of the cluster's default file system.
    return f"file://{path}"


def sql_name(path: Path) -> str:
    """A table's folder as SQL takes it."""
    return f"delta.`{location(path).replace('`', '``')}`"


@contextmanager
def configured(spark: SparkSession, configuration: Mapping[str, str]) -> Iterator[None]:
    """Set what the body needs, and put it back: the session is the user's, too. A query that is
    started meanwhile keeps what it found."""
    before = {name: spark.conf.get(name, None) for name in configuration}
    for name, value in configuration.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)
