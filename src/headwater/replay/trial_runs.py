"""Runs a transform on parts of some records with Spark, and compares its outputs with a record.

If the transform moves no rows between tasks, each part is a task of one job: the outputs of a task
are those of its part. Otherwise each part is a job, with one task for each input partition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.sink import OutputTopics, rows_to_send
from headwater.errors import HeadwaterError, QueryFailedError
from headwater.model import Record, from_epoch_ms
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import dead_letter_topic
from headwater.replay.parent_search import Part, TrialResult
from headwater.replay.rows import COLUMNS
from headwater.replay.runner import reason_of
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.spark.local_rows import local_rows
from headwater.spark.source import HEADERS_TYPE, LINEAGE_COLUMN, parent_lineage, with_lineage

_TASK = "_task"
_SCHEMA = (
    f"{_TASK} int, key binary, value binary, topic string, partition int, offset bigint, "
    f"timestamp timestamp, headers {HEADERS_TYPE}"
)
# Tasks must stay as they are, and a few records do not need more.
_CONFIGURATION = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
_LOW = 2**32 - 1
# Operators of a physical plan whose output rows come from rows of the same task. The exchange is
# that of `_rows`.
_KEEPS_TASK = re.compile(
    r"(Project|Filter|Generate|Expand|Sort|Exchange|LocalTableScan|MapIn(Pandas|Arrow)"
    r"|(Batch|Arrow)EvalPython|PythonMapInArrow)\b"
)


class SparkTrials:
    """Trials of a transform, for one of its outputs."""

    def __init__(
        self,
        spark: SparkSession,
        transform: Transform,
        output: Record,
        records: Sequence[Record],
        settings: Settings,
        *,
        max_runs: int,
        progress: Progress = no_progress,
    ) -> None:
        self._spark = spark
        self._transform = transform
        self._output = output
        self._records = records
        self._settings = settings
        self._progress = progress
        self._max_runs = max_runs
        self.runs = 0
        # Of all records: Spark simplifies the plan of rows that a filter drops.
        self.isolated = _keeps_tasks(self._outputs(self._rows([records])))

    def run(self, parts: Sequence[Part]) -> list[TrialResult]:
        """The outputs of each part.

        Raises:
            QueryFailedError: the transform raised an error.
        """
        task = f"replaying {len(self._records)} records"
        self._progress(task, self.runs, self._max_runs)
        self.runs += len(parts)
        try:
            with configured(self._spark, _CONFIGURATION):
                if self.isolated:
                    results = self._collect([[self._records[n] for n in part] for part in parts])
                    nothing = TrialResult(0, 0, 0)
                    return [results.get(number, nothing) for number in range(len(parts))]
                return [self._run_alone(part) for part in parts]
        except HeadwaterError:
            raise
        except Exception as error:
            raise QueryFailedError(f"the transform fails: {reason_of(error)}") from error
        finally:
            self._progress(task, self.runs, self._max_runs)

    def _run_alone(self, part: Part) -> TrialResult:
        tasks: dict[tuple[str, int], list[Record]] = {}
        for number in part:
            record = self._records[number]
            key = (record.address.topic, record.address.partition)
            tasks.setdefault(key, []).append(record)
        total = TrialResult(0, 0, 0)
        for result in self._collect(list(tasks.values())).values():
            total += result
        return total

    def _collect(self, tasks: Sequence[Sequence[Record]]) -> dict[int, TrialResult]:
        """The outputs by the task that made them."""
        output = self._output
        hashed = F.xxhash64("topic", "key", "value")
        rows = rows_to_send(
            self._outputs(self._rows(tasks)),
            OutputTopics((output.address.topic.removesuffix(dead_letter_topic("")),)),
            self._settings.jobs.max_value_bytes,
        ).select(
            F.spark_partition_id().alias(_TASK),
            F.col("topic").eqNullSafe(output.address.topic).alias("in_topic"),
            _equals("key", output.key).alias("same_key"),
            _equals("value", output.value).alias("same_value"),
            hashed.bitwiseAND(F.lit(_LOW)).alias("low"),
            F.shiftrightunsigned(hashed, 32).alias("high"),
        )
        summed = rows.groupBy(_TASK).agg(
            F.count_if(F.expr("in_topic AND same_key AND same_value")).alias("made"),
            F.count("*").alias("outputs"),
            F.sum("low").alias("low"),
            F.sum("high").alias("high"),
        )
        return {
            row[_TASK]: TrialResult(row["made"], row["outputs"], row["low"] + (row["high"] << 32))
            for row in summed.collect()
        }

    def _rows(self, tasks: Sequence[Sequence[Record]]) -> DataFrame:
        """The records with the columns of Spark's Kafka source."""
        rows = [_row(number, record) for number, task in enumerate(tasks) for record in task]
        frame = local_rows(self._spark, rows, _SCHEMA).repartitionById(max(len(tasks), 1), _TASK)
        return frame.sortWithinPartitions("topic", "partition", "offset").select(*COLUMNS)

    def _outputs(self, rows: DataFrame) -> DataFrame:
        outputs = self._transform.function(with_lineage(rows))
        if LINEAGE_COLUMN in outputs.columns:
            return outputs
        # It is not compared; the sink's columns include it.
        kinds = ("string", "int", "bigint", HEADERS_TYPE)
        nothing = parent_lineage(*(F.lit(None).cast(kind) for kind in kinds))
        return outputs.withColumn(LINEAGE_COLUMN, nothing)


def _keeps_tasks(outputs: DataFrame) -> bool:
    """Whether each task makes its outputs from its own rows alone; false if that is not known."""
    plan = str(outputs._jdf.queryExecution().sparkPlan().toString())  # noqa: SLF001
    operators = [line.lstrip(" :+-") for line in plan.splitlines() if line.strip()]
    own = all(_KEEPS_TASK.match(operator) for operator in operators)
    exchanges = sum(operator.startswith("Exchange") for operator in operators)
    return own and exchanges == 1 and "subquery" not in plan


def _row(task: int, record: Record) -> tuple[Any, ...]:
    address, time_ms = record.address, record.timestamp_ms
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return (
        *(task, record.key, record.value, address.topic, address.partition, address.offset),
        None if time_ms is None else from_epoch_ms(time_ms),
        # As Spark's source: null without headers.
        headers or None,
    )


def _equals(name: str, value: bytes | None) -> Column:
    literal = F.lit(None) if value is None else F.lit(bytearray(value))
    return F.col(name).eqNullSafe(literal.cast("binary"))
