"""The column with the lineage of a row: a struct.

In a table that a job of a user fills, it may also be an array of addresses, or a text with the
addresses separated by commas (`StoredLineage.java`).

The page docs/concepts/lineage-in-tables.md describes it for users of such a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

COLUMN = "lineage"
# In tables of users: the first of the table's columns that has one of these names.
COLUMNS = (COLUMN, "_lineage")

TableFormat = Literal["delta", "iceberg"]

# Name -> type, in Spark SQL. A row with one parent has its address in the first three, whose
# statistics exclude files; with more parents these are null, and `parents` lists all addresses.
FIELDS: Mapping[str, str] = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "parents": "array<string>",
    "record_id": "string",
    "job_name": "string",
    "job_version": "string",
    "batch_version": "bigint",
    "run_id": "string",
}
TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in FIELDS.items())}>"
