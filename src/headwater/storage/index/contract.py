"""The table of the index: its columns, its kinds of rows, its bounds.

One table, so that what a micro-batch found and how far it has read become visible together.
The page docs/concepts/lineage-index.md describes it for other readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.settings import Settings

FORMAT_VERSION = "1"
FORMAT_PROPERTY = "headwater.lineageIndex"

# Kinds of rows; also a partition of the table, so that each lies in files of its own.
EDGE = "edge"
MADE = "made"
SCAN = "scan"

# Name -> type, as Delta and Spark's SQL write it. Every row is about records `first` to `last`
# of a partition; in an edge they are the children, and `last` is left out: there are as many
# children as parents.
COLUMNS: Mapping[str, str] = {
    "parent_topic": "string",
    "parent_partition": "int",
    "parent_first": "bigint",
    "parent_last": "bigint",
    "topic": "string",
    "partition": "int",
    "first": "bigint",
    "last": "bigint",
    "job_name": "string",
    "job_version": "string",
    "batch_version": "bigint",
    "run_id": "string",
    "unlisted": "bigint",
    "records": "bigint",
    "without_lineage": "bigint",
    "unreadable": "bigint",
    "refused": "bigint",
}
PARTITIONS: Mapping[str, str] = {"kind": "string", "level": "int"}

# By this an address is found: files and row groups tell the least and the greatest of each.
SORTED_BY = (
    "parent_topic",
    "parent_partition",
    "parent_first",
    "topic",
    "partition",
    "first",
)
# A look-up decodes whole row groups. Measured: 2 ms each at this size, 6 ms at four times as many
# rows, and the same number of bytes for an edge.
ROW_GROUP_ROWS = 8_192

# A job lists 64 parents unless told otherwise; a forged header of 64 KiB holds ten thousand.
MAX_INDEXED_PARENTS = 1_000
# Of a job's name or version; longer ones are nobody's.
MAX_STAMP_BYTES = 1_024


def index_path(settings: Settings) -> Path:
    """Where the table lies."""
    return (settings.index.table or settings.home_dir / "lineage-index").absolute()
