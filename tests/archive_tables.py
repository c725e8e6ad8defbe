"""Small archives, written without Spark, in the format of the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties, write_deltalake

from headwater.model import Address, Header, Record
from headwater.storage.archive.contract import (
    COLUMNS,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    PARTITIONED_BY,
    STATISTICS,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
)

TOPIC = "visits"
NOON = 1_725_451_200_000
_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    COLUMNS["headers"]: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in COLUMNS.items()])


def record(
    offset: int,
    partition: int = 0,
    value: bytes | None = b"{}",
    headers: Sequence[Header] = (),
) -> Record:
    """A record of the topic; timestamps are a second apart."""
    address = Address(TOPIC, partition, offset)
    return Record(address, b"k", value, tuple(headers), NOON + offset * 1000)


def make_archive(
    path: Path, *, version: str = FORMAT_VERSION, schema: pa.Schema = SCHEMA, **more: str
) -> None:
    """An empty table."""
    configuration = {
        FORMAT_PROPERTY: version,
        TOPIC_PROPERTY: TOPIC,
        TOPIC_ID_PROPERTY: "id",
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
        "delta.deletedFileRetentionDuration": "interval 1 day",
        **more,
    }
    DeltaTable.create(
        str(path),
        Schema.from_arrow(schema),
        partition_by=[name for name in PARTITIONED_BY if name in schema.names],
        configuration=configuration,
        raise_if_key_not_exists=False,
    )


def write_batch(
    path: Path,
    records: Iterable[Record],
    *,
    hours: Sequence[int] = (12,),
    row_group: int = 10_000,
    one_commit_each: bool = True,
) -> None:
    """Append records; the record at offset n is in the hour `hours[n % len(hours)]`.

    A file has one partition, as in a batch of the job. With `one_commit_each` each partition is a
    separate commit; otherwise the files mix partitions.
    """
    if not DeltaTable.is_deltatable(str(path)):
        make_archive(path)
    ordered = sorted(records, key=lambda r: r.address)
    batches = (
        [list(own) for _, own in groupby(ordered, key=lambda r: r.address.partition)]
        if one_commit_each
        else [ordered]
    )
    for batch in batches:
        write_deltalake(
            str(path),
            pa.Table.from_pylist([row_of(r, hours) for r in batch], SCHEMA),
            mode="append",
            writer_properties=WriterProperties(max_row_group_size=row_group),
        )


def row_of(record: Record, hours: Sequence[int]) -> dict[str, Any]:
    """A record as a row of the table."""
    text, data = _text(record.value)
    return {
        "value": text,
        "partition": record.address.partition,
        "offset": record.address.offset,
        "year": 2024,
        "month": 9,
        "day": 4,
        "hour": hours[record.address.offset % len(hours)],
        "topic": record.address.topic,
        "key": record.key,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        "timestamp": datetime.fromtimestamp((record.timestamp_ms or 0) / 1000, UTC),
        "event_time_unreadable": False,
        "value_bytes": data,
    }


def _text(value: bytes | None) -> tuple[str | None, bytes | None]:
    try:
        return (None if value is None else value.decode()), None
    except UnicodeDecodeError:
        return None, value
