"""Exactly once into Kafka on one driver, without transactions.

Spark runs a batch again when the driver died in the middle of it. Here the second run leaves out
what the first has written (see `tail`). A normal batch pays nothing for it: no extra pass, no
foreachBatch, contiguous offsets, and readers need nothing.

It holds under conditions, which are checked before the query starts: one driver per checkpoint,
no task retries, no speculation; and a process whose batch failed does not go on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.modes import KNOWN_AFTER_A_KILL, Delivery, Idempotent, unsafe
from headwater.delivery.output_offsets import OutputOffsets
from headwater.delivery.sink import ORDINAL_COLUMN, Target
from headwater.settings import fault_points
from headwater.spark.lineage_columns import LINEAGE_COLUMN, lineage_identity
from headwater.storage.checkpoint import read_progress

_LOG = logging.getLogger(__name__)
_IDENTITY = "_identity"
# A local master takes its number of tries from its own name: local[4,2] tries twice.
_LOCAL_MASTER = re.compile(r"local(\[[^\],]+(,\s*(?P<tries>[^\]]+))?\])?")
_WRITES_TWICE = "a task that runs twice writes twice"


class ExactlyOnce(Idempotent):
    """The idempotent mode, and a second run of a batch that knows what the first has done."""

    name = "exactly-once"

    def options(self) -> Mapping[str, str]:
        return {**super().options(), **KNOWN_AFTER_A_KILL}

    def refuse_unsafe(self, spark: SparkSession, target: Target) -> None:
        super().refuse_unsafe(spark, target)
        conf = spark.sparkContext.getConf()
        master = conf.get("spark.master", "") or ""
        one_try = _LOCAL_MASTER.fullmatch(master)
        if one_try is None:
            why = "tasks run on executors that outlive the driver or are retried"
            raise unsafe(self.name, "spark.master", master, why)
        if (one_try["tries"] or "1") != "1":
            raise unsafe(self.name, "spark.task.maxFailures", one_try["tries"], _WRITES_TWICE)
        if (conf.get("spark.speculation", "false") or "").lower() == "true":
            raise unsafe(self.name, "spark.speculation", "true", _WRITES_TWICE)
        if not isinstance(target.checkpoint, Path):
            why = "what was written is noted beside it, in a local folder"
            raise unsafe(self.name, "checkpoint", target.checkpoint, why)

    def deliver(self, delivery: Delivery) -> None:
        checkpoint = Path(delivery.target.checkpoint)
        output = OutputOffsets(checkpoint, delivery.target.topics, delivery.settings)
        unfinished = read_progress(checkpoint).cut_off
        output.begin_run(delivery.run.id)
        if unfinished is not None:
            self._finish(unfinished, delivery, output)
        if not delivery.run.stop.requested:
            with output.note_while_running():
                super().deliver(delivery)

    def _finish(self, batch: int, delivery: Delivery, output: OutputOffsets) -> None:
        """Run the unfinished batch again, without the records that it has already written."""
        stop, target = delivery.run.stop, delivery.target
        written = output.written_by(batch, stopped=lambda: stop.requested)
        if stop.requested:
            # The output was not read to its end; the next start reads it again.
            return
        _LOG.info(
            "batch %d was interrupted; %d of its records are already written", batch, len(written)
        )
        fault_points.reach("before_recovery")
        rows = without_written(
            delivery.rows, written, target.job_name, by_first_parent=target.one_per_first_parent
        )
        # `once` runs only the batch that the checkpoint has started, then ends.
        self._run_query(delivery, rows, trigger={"once": True})
        fault_points.reach("after_recovery")


def without_written(
    rows: DataFrame, written: Collection[str], job_name: str, *, by_first_parent: bool = False
) -> DataFrame:
    """Rows for the sink without those whose identities are there; their order stays.

    Args:
        by_first_parent: a first parent has one output, whichever other parents it has.
    """
    if not written:
        return rows
    identity = lineage_identity(F.col(LINEAGE_COLUMN), job_name, F.col(ORDINAL_COLUMN))
    if by_first_parent:
        written = {each.partition(",")[0] for each in written}
        identity = F.substring_index(identity, ",", 1)
    there = rows.sparkSession.createDataFrame([(each,) for each in written], [_IDENTITY])
    named = rows.withColumn(_IDENTITY, identity)
    return named.join(F.broadcast(there), _IDENTITY, "left_anti")
