"""Dead letters of records for which the code of the job raises an error.

They are sent by a batch write of their own, before the batch is run without them. As rows of the
query they would need a second source, whose tasks transactional delivery could not tell from those
of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.delivery.errors.plan import OffsetSpan, records_at
from headwater.delivery.sink import ERROR_COLUMN, TOPIC_COLUMN, SinkTarget, rows_to_send
from headwater.settings import Settings
from headwater.spark.local_rows import local_rows
from headwater.spark.source import LINEAGE_COLUMN, with_lineage
from headwater.storage.failed_records import FailedRecord

_ADDRESS = ("topic", "partition", "offset")
_ERRORS = "topic string, partition int, offset bigint, kind string, message string"


def dead_letter_rows(
    rows: DataFrame, failed: Sequence[FailedRecord], target: SinkTarget, settings: Settings
) -> DataFrame:
    """The failed records, with their bytes and errors, as rows for the sink.

    Args:
        rows: of the query, whose source is read.
    """
    records = with_lineage(records_at(rows, _spans(failed)))
    values = ((*_address(each), each.kind, each.message) for each in failed)
    errors = local_rows(rows.sparkSession, values, _ERRORS)
    # The output that a record would have had is not known: the first one stands for all.
    output = F.lit(target.topics.outputs[0]).alias(TOPIC_COLUMN)
    error = F.struct("kind", "message").alias(ERROR_COLUMN)
    found = records.join(F.broadcast(errors), list(_ADDRESS))
    letters = found.select(output, "key", "value", LINEAGE_COLUMN, error)
    return rows_to_send(letters, target.topics, settings.jobs.max_value_bytes)


def _address(record: FailedRecord) -> tuple[str, int, int]:
    return record.address.topic, record.address.partition, record.address.offset


def _spans(failed: Sequence[FailedRecord]) -> list[OffsetSpan]:
    """One span for each partition, from its first failed record to its last."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in map(_address, failed):
        offsets.setdefault((topic, partition), []).append(offset)
    return [
        OffsetSpan(topic, partition, min(each), max(each) + 1)
        for (topic, partition), each in offsets.items()
    ]
