"""The checksum of `digest`, as Spark metrics that are observed while rows go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.replay.digest import LANE_DIGITS, LANES, Checksum


def record_hash(identity: Column, key: Column, value: Column) -> Column:
    """The SHA-256 of a record, in hexadecimal digits; key and value are binary."""

    def length(part: Column) -> Column:
        return F.coalesce(F.length(part).cast("string"), F.lit("-"))

    lead = F.concat(
        identity, F.lit("\0"), length(key), F.lit("\0"), length(value), F.lit("\0")
    ).cast("binary")
    nothing = F.lit(bytearray())
    return F.sha2(F.concat(lead, F.coalesce(key, nothing), F.coalesce(value, nothing)), 256)


def checksum_metrics(hashed: Column) -> list[Column]:
    """Metrics for `observe`: how many hashes, and the exclusive or of them; nulls are left out."""

    def lane(number: int) -> Column:
        digits = F.substring(hashed, 1 + number * LANE_DIGITS, LANE_DIGITS)
        return F.bit_xor(F.conv(digits, 16, 10).cast("bigint")).alias(f"lane_{number}")

    return [F.count(hashed).alias("records"), *(lane(number) for number in range(LANES))]


def checksum_of(metrics: Mapping[str, Any]) -> Checksum:
    """What was observed; no rows have no lanes."""
    return Checksum(
        int(metrics["records"] or 0), (int(metrics["lane_0"] or 0), int(metrics["lane_1"] or 0))
    )
