"""Small lineage indexes, written without Spark, in the format of the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties, write_deltalake

from headwater.model import Address, AddressRange
from headwater.storage.index.contract import (
    COLUMNS,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    PARTITIONS,
    SORTED_BY,
)

_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in {**COLUMNS, **PARTITIONS}.items()])


def edge(parent: str, child: str, count: int = 1) -> dict[str, Any]:
    """An edge from `count` records, starting at `parent`, to as many, starting at `child`."""
    above, below = Address.parse(parent), Address.parse(child)
    return {
        "kind": "edge",
        "parent_topic": above.topic,
        "parent_partition": above.partition,
        "parent_first": above.offset,
        "parent_last": above.offset + count - 1,
        "topic": below.topic,
        "partition": below.partition,
        "first": below.offset,
    }


def within(parents: str, child: str, count: int = 1) -> dict[str, Any]:
    """`count` records, starting at `child`, with a range that contains their parents."""
    above = AddressRange.parse(parents)
    return {
        "kind": "within",
        "parent_topic": above.topic,
        "parent_partition": above.partition,
        "parent_first": above.first,
        "parent_last": above.last,
        **_records(child, count),
    }


def made(
    first: str, count: int = 1, job: str = "job", version: str = "v1", batch: int = 0
) -> dict[str, Any]:
    """Records that a job made."""
    stamp = {"job_name": job, "job_version": version, "batch_version": batch, "unlisted": 0}
    return {"kind": "made", **_records(first, count), **stamp}


def scan(first: str, count: int, **counts: int) -> dict[str, Any]:
    """Offsets that were read."""
    return {"kind": "scan", **_records(first, count), "records": count, **counts}


def write_index(
    path: Path,
    rows: Iterable[dict[str, Any]],
    *,
    version: str = FORMAT_VERSION,
    schema: pa.Schema = SCHEMA,
    row_group: int = 8192,
) -> None:
    """Append a commit, in the sort order of the job."""
    full: Sequence[dict[str, Any]] = [
        {**dict.fromkeys(schema.names), "level": 0, **r} for r in rows
    ]
    table = pa.Table.from_pylist(full, schema)
    order = [(name, "ascending") for name in ("kind", *SORTED_BY)]
    if not DeltaTable.is_deltatable(str(path)):
        DeltaTable.create(
            str(path),
            Schema.from_arrow(schema),
            partition_by=list(PARTITIONS),
            configuration={FORMAT_PROPERTY: version},
            raise_if_key_not_exists=False,
        )
    write_deltalake(
        str(path),
        table.sort_by(order),
        mode="append",
        writer_properties=WriterProperties(max_row_group_size=row_group),
    )


def _records(first: str, count: int) -> dict[str, Any]:
    address = Address.parse(first)
    return {
        "topic": address.topic,
        "partition": address.partition,
        "first": address.offset,
        "last": address.offset + count - 1,
    }
