"""Dead letters of records for which the code of the job raises an error.

They are sent by a separate batch write, before the batch is run without them. As rows of the query
they would need a second source, and transactional delivery could not distinguish its tasks from
those of the stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.errors.plan import (
    OffsetSpan,
    part_of_query,
    records_at,
    without_records,
)
from headwater.delivery.sink import (
    ERROR_COLUMN,
    TOPIC_COLUMN,
    SinkTarget,
    close_producers_of,
    rows_to_send,
    send_batch,
)
from headwater.delivery.written import without_written
from headwater.settings import Settings, fault_points
from headwater.spark.local_rows import local_rows
from headwater.spark.query_failure import query_failed
from headwater.spark.query_runner import local_checkpoint
from headwater.spark.source import LINEAGE_COLUMN, with_lineage
from headwater.storage.checkpoint import query_id
from headwater.storage.failed_records import FailedRecord, FailedRecords, read_failed_records

_ADDRESS = ("topic", "partition", "offset")
_ERRORS = "topic string, partition int, offset bigint, kind string, message string"


def failed_records(
    target: SinkTarget, spark: SparkSession, run_id: str
) -> tuple[FailedRecords | None, str]:
    """Those of the interrupted batch, and Spark's id of the query.

    Whatever `on_error` is now: their dead letters may be sent already.
    """
    with local_checkpoint(target.checkpoint, spark) as folder:
        return read_failed_records(folder), query_id(folder) or run_id


def without_failed(rows: DataFrame, failed: FailedRecords) -> DataFrame:
    """Rows for the sink, made without the failed records."""
    return without_records(rows, (record.address for record in failed.records))


def send_failed(
    rows: DataFrame,
    failed: FailedRecords,
    query: str,
    target: SinkTarget,
    run_id: str,
    options: Mapping[str, str],
    settings: Settings,
    written: Collection[str],
) -> None:
    """Send the dead letters of failed records, without those that are written.

    Args:
        rows: of the query, whose source is read.
        query: Spark's id of the query.
        options: of the delivery mode.
        written: identities of records of the batch.

    Raises:
        QueryFailedError: they could not be sent.
    """
    spark, target = rows.sparkSession, replace(target, one_input_per_task=True)
    fault_points.reach("before_failed_records")
    for number, records in enumerate(failed.found):
        # Names a transaction, which contains the batch id: one for each search.
        sender = f"errors-{query}-{number}"
        letters = dead_letter_rows(rows, records, target, settings)
        letters = without_written(letters, written, target.job_name)
        try:
            with part_of_query(spark, query):
                send_batch(
                    letters,
                    target,
                    run_id,
                    failed.batch,
                    options,
                    settings,
                    own_headers={},
                    query_id=sender,
                )
        except Exception as error:
            raise query_failed(target.job_name, error, settings) from error
        finally:
            close_producers_of(spark, sender)
    fault_points.reach("after_failed_records")


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
