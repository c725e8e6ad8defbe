"""The table of an archive: columns, folder, properties.

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
# The topic's name and id: a topic that was deleted and recreated has another id, and its offsets
# are those of other records.
TOPIC_PROPERTY = "headwater.topic"
TOPIC_ID_PROPERTY = "headwater.topicId"

# Name -> type, in Delta and Spark SQL.
COLUMNS: Mapping[str, str] = {
    # Text; null if the value in Kafka is null or not UTF-8: see `value_bytes`.
    "value": "string",
    "partition": "int",
    "offset": "bigint",
    # Of the event time, in UTC; of Kafka's timestamp if the event time is not readable.
    "year": "int",
    "month": "int",
    "day": "int",
    "hour": "int",
    "topic": "string",
    "key": "binary",
    # In Kafka's order, including duplicates; null if there are none.
    "headers": "array<struct<key:string,value:binary>>",
    "timestamp": "timestamp",
    "event_time_unreadable": "boolean",
    # Only for values that are not UTF-8.
    "value_bytes": "binary",
}
PARTITIONED_BY = ("year", "month", "day", "hour")
SHOWN_COLUMNS = tuple(COLUMNS)[:7]

# The value of the record in Kafka, in Spark SQL.
VALUE_SQL = "coalesce(value_bytes, cast(value AS binary))"

# Columns with statistics in files and row groups.
STATISTICS = ("partition", "offset", "timestamp")
# A reader decodes complete row groups: this is the cost of reading a small range.
ROW_GROUP_ROWS = 10_000

# For files that are not part of the table; Delta ignores folders with an underscore.
OWN_FOLDER = "_headwater"


def archive_path(topic: str, settings: Settings) -> Path:
    """The folder of the archive of a topic.

    Raises:
        InputError: not a valid topic name, so not used as a path.
    """
    if not is_topic_name(topic):
        raise InputError(f"not a topic name: {topic!r}")
    return archive_folder(settings) / topic


def archive_folder(settings: Settings) -> Path:
    """The folder of all archives."""
    return (settings.archive.folder or settings.home_dir / "archive").absolute()
