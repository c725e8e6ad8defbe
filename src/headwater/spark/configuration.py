"""Adds configuration to a session without changing what the user has set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

# Lists: the user's entries stay, and Headwater's follow.
LISTS = frozenset(
    {
        "spark.extraListeners",
        "spark.jars",
        "spark.plugins",
        "spark.sql.extensions",
    }
)
_CATALOG = "spark.sql.catalog."


def without_conflicts(added: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    """The part of `added` that `existing` does not set; lists are joined.

    A catalog that the user has configured gets no further properties.
    """
    result: dict[str, str] = {}
    for key, value in added.items():
        if key in LISTS:
            joined = joined_list(existing.get(key), value)
            if joined != existing.get(key):
                result[key] = joined
        elif key not in existing and not _of_configured_catalog(key, existing):
            result[key] = value
    return result


def joined_list(existing: str | None, added: str) -> str:
    """The existing list, followed by those of the added names that it does not have."""
    names = _names(existing or "")
    missing = [name for name in _names(added) if name not in names]
    return ",".join([*([existing] if existing and names else []), *missing])


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _of_configured_catalog(key: str, existing: Mapping[str, str]) -> bool:
    if not key.startswith(_CATALOG):
        return False
    name = key.removeprefix(_CATALOG).partition(".")[0]
    return f"{_CATALOG}{name}" in existing


@contextmanager
def configured(spark: SparkSession, configuration: Mapping[str, str]) -> Iterator[None]:
    """Set configuration for the body and restore it, as the session belongs to the user. A query
    that is started in the body keeps the configuration."""
    previous: dict[str, str | None] = {name: spark.conf.get(name, None) for name in configuration}
    for name, value in configuration.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in previous.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
