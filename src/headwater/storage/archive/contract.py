"""The table of an archive: its columns, where it lies, what marks it.

The page docs/concepts/archive.md describes it for other readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.errors import InputError
from headwater.model import is_topic_name
from headwater.settings import Settings

FORMAT_VERSION = "1"
FORMAT_PROPERTY = "headwater.archive"
# Which topic it is, and which one of that name: a topic that was deleted and made anew has
# another id, and its offsets mean other records.
TOPIC_PROPERTY = "headwater.topic"
TOPIC_ID_PROPERTY = "headwater.topicId"

# Name -> type, as Delta and Spark's SQL write it.
COLUMNS: Mapping[str, str] = {
    # Text; null where Kafka holds null, and where the bytes are no UTF-8: see `value_bytes`.
    "value": "string",
    "partition": "int",
    "offset": "bigint",
    # Of the event time, in UTC; of Kafka's timestamp where the event time could not be read.
    "year": "int",
    "month": "int",
    "day": "int",
    "hour": "int",
    "topic": "string",
    "key": "binary",
    # In Kafka's order, duplicates included; null where there are none.
    "headers": "array<struct<key:string,value:binary>>",
    "timestamp": "timestamp",
    "event_time_unreadable": "boolean",
    # Only where `value` can't hold them.
    "value_bytes": "binary",
}
PARTITIONED_BY = ("year", "month", "day", "hour")
SHOWN_COLUMNS = tuple(COLUMNS)[:7]

# The record's value as Kafka holds it, in Spark's SQL.
VALUE_SQL = "coalesce(value_bytes, cast(value AS binary))"

# Files and row groups tell the least and the greatest of each of these.
STATISTICS = ("partition", "offset", "timestamp")
# A reader decodes whole row groups: of a small range this is what it costs.
ROW_GROUP_ROWS = 10_000

# Facts that the table itself does not hold; Delta leaves folders with an underscore alone.
OWN_FOLDER = "_headwater"


def archive_path(topic: str, settings: Settings) -> Path:
    """Where the archive of a topic lies.

    Raises:
        InputError: no topic can have that name, so that it is not made a path.
    """
    if not is_topic_name(topic):
        raise InputError(f"not a topic name: {topic!r}")
    return archive_folder(settings) / topic


def archive_folder(settings: Settings) -> Path:
    """Where the archives of all topics lie."""
    return (settings.archive.folder or settings.home_dir / "archive").absolute()
