"""The checksum of `digest`, as Spark metrics that are observed while rows go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from headwater.replay.digest import Checksum

_FUNCTION = "headwater_record_digest"
_CLASS = "headwater.delivery.RecordDigest"
_WORD = 2**64


def register_digest_udf(spark: SparkSession) -> None:
    """Make the function known to a session; needed before `record_hash` is used in it."""
    if not spark.catalog.functionExists(_FUNCTION):
        spark.udf.registerJavaFunction(_FUNCTION, _CLASS, LongType())


def record_hash(identity: Column, key: Column, value: Column) -> Column:
    """64 bits of the SHA-256 of a record, as a number; key and value are binary."""
    return F.call_function(_FUNCTION, identity.cast("binary"), key, value)


def checksum_metrics(hashed: Column) -> list[Column]:
    """Metrics for `observe`: how many hashes, and the exclusive or of them; nulls are left out."""
    return [F.count(hashed).alias("records"), F.bit_xor(hashed).alias("checksum")]


def checksum_of(metrics: Mapping[str, Any]) -> Checksum:
    """What was observed; no rows have no checksum."""
    return Checksum(int(metrics["records"] or 0), int(metrics["checksum"] or 0) % _WORD)
