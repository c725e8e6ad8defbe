"""Which rows of a micro-batch Spark would drop as late, known before it does.

A stateful operator drops a row whose time is at or before the watermark of the batch before, and
only counts it. That watermark stands in the checkpoint; two functions in the JVM (`java/`) tell it,
and the batch's number, to expressions. A batch that is run again has the same late rows.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headwater.model.dead_letter import LATE

_WATERMARK = "headwater_late_watermark"
_BATCH = "headwater_batch_number"
_TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSX"

# With `false` Spark would compare with the watermark of the batch itself; it is not kept in the
# checkpoint, so a restart with another value would change which rows are late.
RULE_OF_LATENESS = {"spark.sql.streaming.statefulOperator.allowMultiple": "true"}


def register_functions(spark: SparkSession, checkpoint: str) -> None:
    """Make the functions known to the session, for a query with this checkpoint."""
    jvm: Any = spark._jvm  # noqa: SLF001
    session: Any = spark._jsparkSession  # noqa: SLF001
    jvm.headwater.enrichment.BatchFunctions.register(session, checkpoint, _WATERMARK, _BATCH)


def watermark_micros() -> Column:
    """The watermark that rows of this batch are held against, in microseconds."""
    return F.expr(f"{_WATERMARK}()")


def late_error(time: Column, field: str, watermark: Column) -> Column:
    """The `error` of a late row: how late, against which watermark, in which batch; else null."""
    micros = F.unix_micros(time)
    message = F.concat(
        F.lit("late by "),
        F.format_string("%.3f", (watermark - micros) / 1_000_000),
        F.lit(f" s: {field} "),
        _text(time),
        F.lit(", watermark "),
        _text(F.timestamp_micros(watermark)),
        F.lit(", batch "),
        F.expr(f"{_BATCH}()").cast("string"),
    )
    error = F.struct(F.lit(LATE).alias("kind"), message.alias("message"))
    return F.when(micros <= watermark, error)


def _text(time: Column) -> Column:
    return F.date_format(time, _TIME_FORMAT)
