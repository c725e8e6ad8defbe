"""Settings of a Spark session, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


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
