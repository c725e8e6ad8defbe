"""The table of the lineage index: columns, kinds of rows, limits.

One table, so that the edges of a micro-batch and its offsets become visible together.
The page docs/concepts/lineage-index.md describes it for other readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.settings import Settings

FORMAT_VERSION = "1"
FORMAT_PROPERTY = "headwater.lineageIndex"

# Kinds of rows; also a partition column, so that each kind has its own files.
EDGE = "edge"
# Records whose parents are within a range; earlier versions ignore them.
WITHIN = "within"
MADE = "made"
SCAN = "scan"

# Name -> type, as Delta and Spark's SQL write it. Every row is about records `first` to `last`
# of a partition; in an edge these are the children, and `last` is null: there are as many
# children as parents. In a row `within`, each of the children has parents in the range.
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

# Addresses are found by the statistics of these columns in files and row groups.
SORTED_BY = (
    "parent_topic",
    "parent_partition",
    "parent_first",
    "topic",
    "partition",
    "first",
)
# A lookup decodes complete row groups. Measured: 2 ms each at this size, 6 ms at four times as
# many rows, and the same number of bytes per edge.
ROW_GROUP_ROWS = 8_192

# A job lists 64 parents by default; a forged header of 64 KiB holds ten thousand.
MAX_INDEXED_PARENTS = 1_000
# Maximum length of a job's name or version; longer ones are not genuine.
MAX_STAMP_BYTES = 1_024


def index_path(settings: Settings) -> Path:
    """The folder of the table."""
    return (settings.index.table or settings.home_dir / "lineage-index").absolute()
