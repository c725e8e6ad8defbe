"""Exactly once into Kafka with Spark's own sink, on one driver.

Spark's sink may write a batch twice: when the driver dies in the middle of it, the batch is run
again. Here the second run leaves out what the first has written (see `tail`). A normal batch
pays nothing for it: no extra pass, no foreachBatch, contiguous offsets, and readers need nothing.

It holds under conditions, which are checked before the query starts: one driver per checkpoint,
no task retries, no speculation; and a process whose batch failed does not go on.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headwater import faultpoints
from headwater.delivery.checkpoint import read_progress
from headwater.delivery.lease import lease
from headwater.delivery.tail import Tail
from headwater.errors import UnsafeDeliveryError
from headwater.settings import Settings
from headwater.spark import StopSignal, run_until_stopped
from headwater.spark.kafka_source import client_options

# Measured: with Spark's defaults the producer sends small uncompressed batches and is the
# slowest part of a copying job; with these it is no longer.
PRODUCER = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 * 1024),
    "kafka.compression.type": "lz4",
}
IDENTITY_COLUMN = "_identity"

# A local master takes its number of tries from its own name: local[4,2] tries twice.
_LOCAL_MASTER = re.compile(r"local(\[[^\],]+(,\s*(?P<tries>[^\]]+))?\])?")
_WRITES_TWICE = "a task that runs twice writes twice"
_TRIGGERS = {"processingTime", "availableNow", "once"}


@dataclass(frozen=True)
class Target:
    """Where a query writes; with several topics each row names its own."""

    job_name: str
    checkpoint: Path
    topics: tuple[str, ...]
    trigger: Mapping[str, Any]


def new_run_id() -> str:
    """Names one start of a query. Records are told apart by their parents, never by this."""
    return str(uuid.uuid4())


def deliver(
    spark: SparkSession,
    records: Callable[[str], DataFrame],
    target: Target,
    settings: Settings,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Run the query until it ends or is stopped.

    Args:
        records: gives, for a run id, the rows to write: `key`, `value`, `headers`, `topic` if
            there are several, and the identity in `IDENTITY_COLUMN`.

    Raises:
        UnsafeDeliveryError: a setting would break the promise.
        CheckpointInUseError: another driver holds the checkpoint.
        CheckpointError: the checkpoint is damaged.
    """
    refuse_unsafe(spark, target.trigger)
    with lease(target.checkpoint, spark):
        tail = Tail(target.checkpoint, target.topics, settings)
        cut_off = read_progress(target.checkpoint).cut_off
        run_id = new_run_id()
        rows = records(run_id)
        tail.begin_run(run_id)
        stop = StopSignal()
        with stop.on_signals():
            if cut_off is not None:
                _finish(cut_off, rows, tail, target, settings, stop, say)
            if not stop.requested:
                query = _start(rows, target, target.trigger, settings)
                with tail.note_while_running():
                    run_until_stopped(query, stop, settings, say)


def refuse_unsafe(spark: SparkSession, trigger: Mapping[str, Any]) -> None:
    """Refuse settings under which Spark may run a task of a batch twice, or has no batches.

    Raises:
        UnsafeDeliveryError: names the setting and its value.
    """
    conf = spark.sparkContext.getConf()
    master = conf.get("spark.master", "") or ""
    one_try = _LOCAL_MASTER.fullmatch(master)
    if one_try is None:
        raise _unsafe(
            "spark.master", master, "tasks run on executors that outlive the driver or are retried"
        )
    if (one_try["tries"] or "1") != "1":
        raise _unsafe("spark.task.maxFailures", one_try["tries"], _WRITES_TWICE)
    if (conf.get("spark.speculation", "false") or "").lower() == "true":
        raise _unsafe("spark.speculation", "true", _WRITES_TWICE)
    for kind in set(trigger) - _TRIGGERS:
        raise _unsafe("trigger", kind, "it has no micro-batches that could be finished")


def _unsafe(setting: str, value: str, why: str) -> UnsafeDeliveryError:
    return UnsafeDeliveryError(
        f"exactly once can't be promised with {setting}={value}: {why}",
        hint="use a local master without retries, such as spark.master=local[*], "
        "spark.speculation=false and a trigger of micro-batches",
        setting=setting,
        value=value,
    )


def _finish(
    batch: int,
    rows: DataFrame,
    tail: Tail,
    target: Target,
    settings: Settings,
    stop: StopSignal,
    say: Callable[[str], None],
) -> None:
    """Run the batch that was cut off, without what it has written before."""
    written = tail.written_by(batch, stopped=lambda: stop.requested)
    if stop.requested:
        # What was read is not all; the next start looks again.
        return
    say(f"batch {batch} was cut off; {len(written)} of its records are there already")
    faultpoints.reach("before_recovery")
    if written:
        spark = rows.sparkSession
        there = spark.createDataFrame([(identity,) for identity in written], [IDENTITY_COLUMN])
        rows = rows.join(F.broadcast(there), IDENTITY_COLUMN, "left_anti")
    # `once` runs just the batch that the checkpoint asks for, then ends.
    run_until_stopped(_start(rows, target, {"once": True}, settings), stop, settings, say)
    faultpoints.reach("after_recovery")


def _start(
    rows: DataFrame, target: Target, trigger: Mapping[str, Any], settings: Settings
) -> StreamingQuery:
    options = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        # With its scheme: a bare path would be one of the cluster's default file system.
        "checkpointLocation": f"file://{target.checkpoint.absolute()}",
        **PRODUCER,
        **client_options(settings),
    }
    if len(target.topics) == 1:
        options["topic"] = target.topics[0]
    return (
        rows.drop(IDENTITY_COLUMN)
        .writeStream.format("kafka")
        .options(**options)
        .trigger(**trigger)
        .queryName(target.job_name)
        .start()
    )
