"""A streaming job with row lineage, in a few lines.

    from headwater import LineageJob

    job = LineageJob("page_upper", version="1.2.0")
    visits = job.read("visits")
    job.write(visits.select("key", F.upper("value").alias("value"), "lineage"), "visits-upper")

`read` adds the column `lineage`; whatever is done to the rows, the column has to come along:
kept by `select`, combined by `join_lineage` and `merge_lineage`. `write` turns it into headers
and delivers exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from headwater.collector.query import QueryDescription
from headwater.collector.streaming import (
    counted,
    is_finite,
    query_run,
    table_output,
    topic_outputs,
)
from headwater.delivery.modes import Delivery, Mode
from headwater.delivery.registry import DEFAULT_MODE, delivery_mode
from headwater.delivery.rows import (
    check_table_columns,
    check_topic_columns,
    has_shuffle,
    rows_to_send,
    topics_for_parents,
)
from headwater.delivery.sink import Target, location_of
from headwater.kafka import ensure_topic
from headwater.model.headers import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import dead_letter_topic, late_topic, parents_topic
from headwater.openlineage.events import Dataset, kafka_topic
from headwater.openlineage.progress import Roles
from headwater.quality import Expectation, Quality, enforced
from headwater.settings import Settings, load
from headwater.spark import OnBatch, create_session, read_topic_stream, run_until_stopped
from headwater.spark.lineage_columns import LINEAGE_COLUMN, with_lineage
from headwater.spark.query_runner import new_run_id
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import check_columns, stored, table_of, writer_of
from headwater.storage.tables.contract import TableFormat
from headwater.storage.tables.registry import register

OnFailure = Literal["stop", "dead-letter"]

_DEFAULT_PARTITIONS = 2


class LineageJob:
    """A job that reads topics and writes a topic; every output record knows its parents."""

    def __init__(
        self,
        name: str,
        *,
        version: str | None = None,
        settings: Settings | None = None,
        bootstrap_servers: str | None = None,
        checkpoint: Path | str | None = None,
        delivery: str | Mode = DEFAULT_MODE,
        header_order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION),
        connectors: Sequence[str] = ("kafka",),
        progress: Progress = no_progress,
    ) -> None:
        self._settings = _with_brokers(settings or load(), bootstrap_servers)
        self._name = name
        self._version = version or self._settings.jobs.version
        self._checkpoint = checkpoint or self._settings.home_dir / "checkpoints" / name
        self._mode = delivery_mode(delivery) if isinstance(delivery, str) else delivery
        self._order = tuple(header_order)
        self._topics: list[str] = []
        self._beside: set[str] = set()
        self._partitions: list[int] = []
        self._quality: list[Quality] = []
        self.spark: SparkSession = create_session(
            name,
            self._settings,
            connectors=connectors,
            additional_configs=self._mode.session_options(self._settings),
            progress=progress,
        )

    def read(
        self,
        topic: str,
        *,
        starting_offsets: str = "earliest",
        partitions: int = _DEFAULT_PARTITIONS,
        beside: Sequence[str] = (),
        max_records_per_batch: int | None = None,
    ) -> DataFrame:
        """A topic as a stream of rows `key, value, topic, partition, offset, timestamp, headers`
        and `lineage`; one that is not there is made with so many partitions.

        Args:
            beside: further topics in the same stream, which have to be there.
        """
        self._topics.append(topic)
        self._beside.update(beside)
        if self._settings.jobs.create_topics:
            found = ensure_topic(topic, partitions, self._settings.kafka)
            self._partitions.append(found.partitions)
        limit = {"maxOffsetsPerTrigger": str(max_records_per_batch)}
        stream = read_topic_stream(
            self.spark,
            ",".join((topic, *beside)),
            self._settings,
            starting_offsets=starting_offsets,
            **(limit if max_records_per_batch else {}),
        )
        return with_lineage(stream)

    def expect(
        self,
        rows: DataFrame,
        expectations: Sequence[Expectation] = (),
        *,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        topic: str | None = None,
    ) -> DataFrame:
        """The same rows, measured as they are written: counts, bounds and expectations, which the
        catalog shows with the output.

        Args:
            name: of these rows; without it that of the job, with a number from the second on.
            columns: those to measure. Default: the first ones.
            topic: the input whose rows they are, with which they are shown instead.

        Raises:
            InputError: a column is missing, or an expectation can't be evaluated.
        """
        number = len(self._quality) + 1
        quality = Quality(
            name or (self._name if number == 1 else f"{self._name} {number}"),
            expectations,
            columns=columns,
            dataset=(topic and kafka_topic(self._settings.bootstrap_servers, topic)) or None,
            settings=self._settings,
        )
        self._quality.append(quality)
        return quality.measure(rows)

    def write(
        self,
        records: DataFrame,
        topic: str,
        *,
        trigger: Mapping[str, Any] | None = None,
        on_failure: OnFailure = "stop",
        late_output: bool = False,
        one_per_first_parent: bool = False,
        on_batch: OnBatch | None = None,
    ) -> None:
        """Write rows with `value`, `lineage` and, if there is one, `key`; returns when the query
        ends or is stopped.

        Args:
            late_output: rows whose error is of the kind `LATE` go to `<topic>-late`.
            one_per_first_parent: of a join that keeps one match for each record of its first
                input, and may choose another one when a batch is run again.
            on_batch: gets what Spark tells of each micro-batch; an error that it raises ends
                the query.
            on_failure: what to do with a record that Kafka refuses for what it is, such as its
                size: stop with its address in the error, or set it aside in the dead letter.

        Raises:
            InputError: a column is missing.
            UnsafeDeliveryError: a Spark setting would break the promise of the delivery mode.
            QueryFailedError: the query failed; the next start goes on where it stopped.
            ExpectationFailedError: a row broke an expectation of the severity `fail`.
        """
        check_topic_columns(records, topic)
        late = (late_topic(topic),) if late_output else ()
        topics = (topic, dead_letter_topic(topic), *late)
        if self._settings.jobs.create_topics:
            partitions = max(self._partitions, default=_DEFAULT_PARTITIONS)
            for name in (*topics, *topics_for_parents(records, topic)):
                ensure_topic(name, partitions, self._settings.kafka)
        target = Target(
            self._name,
            self._version,
            self._checkpoint,
            topics,
            trigger or {"processingTime": "0 seconds"},
            self._order,
            failures_topic=topics[1] if on_failure == "dead-letter" else None,
            one_input_per_task=self._has_one_input_per_task(records),
            one_per_first_parent=one_per_first_parent,
        )
        rows = rows_to_send(records, topics, self._settings.jobs.max_value_bytes)
        lineage = self._lineage_of_topics(records, topics, is_finite(trigger))
        self._mode.refuse_unsafe(self.spark, target)
        with (
            self._enforced(),
            query_run(
                self.spark, self._checkpoint, lineage, self._settings, on_batch=on_batch
            ) as run,
        ):
            self._mode.deliver(Delivery(self.spark, rows, target, self._settings, run))

    def write_table(
        self,
        rows: DataFrame,
        table: str | Path,
        *,
        table_format: TableFormat = "delta",
        trigger: Mapping[str, Any] | None = None,
    ) -> None:
        """Append rows to a table, each once; returns when the query ends or is stopped.

        The column `lineage` becomes a struct with the addresses of the parents, which `impact`
        reads; a missing table is made.

        Args:
            table: a folder for Delta, a name such as `demo.news.visits` for Iceberg.

        Raises:
            InputError: a column is missing.
            LineageTableError: the table has other columns.
            QueryFailedError: the query failed; the next start goes on where it stopped.
            ExpectationFailedError: a row broke an expectation of the severity `fail`.
        """
        check_table_columns(rows, table)
        target = table_of(self.spark, table, table_format)
        run_id = new_run_id()
        maker = JobRun(self._name, self._version, run_id)
        kept = stored(rows, maker, 0)
        target.ensure(kept.schema)
        check_columns(target, kept)
        known = target.known()
        register(known, self._settings)
        output = table_output(known.name, known.location, table_format)
        lineage = self._lineage_of_table(rows, output, is_finite(trigger))
        with (
            self._enforced(),
            query_run(self.spark, self._checkpoint, lineage, self._settings, run_id=run_id) as run,
        ):
            query = (
                counted(rows, self._settings, self._name)
                .writeStream.foreachBatch(writer_of(target, maker))
                .option("checkpointLocation", location_of(self._checkpoint))
                .queryName(self._name)
                .trigger(**(trigger or {"processingTime": "0 seconds"}))
                .start()
            )
            run_until_stopped(query, run.stop, self._settings, run.on_batch)

    @contextmanager
    def _enforced(self) -> Iterator[None]:
        """What was expected holds for this query, and no longer."""
        try:
            with enforced(*self._quality):
                yield
        finally:
            self._quality.clear()

    def _lineage_of_topics(
        self, records: DataFrame, topics: tuple[str, ...], finite: bool
    ) -> QueryDescription:
        late = topics[2] if len(topics) > 2 else None
        roles = Roles(
            frozenset(self._beside),
            dead_letter=topics[1],
            late=late,
            parents=parents_topic(topics[0]),
            with_lineage=True,
        )
        return QueryDescription(
            self._name,
            self._version,
            self._checkpoint,
            records,
            topic_outputs(topics, self._settings),
            roles,
            finite,
            columns=("key", "value"),
            quality=tuple(self._quality),
        )

    def _lineage_of_table(self, rows: DataFrame, output: Dataset, finite: bool) -> QueryDescription:
        roles = Roles(frozenset(self._beside), with_lineage=True)
        return QueryDescription(
            self._name,
            self._version,
            self._checkpoint,
            rows,
            [output],
            roles,
            finite,
            whole=(LINEAGE_COLUMN,),
            quality=tuple(self._quality),
        )

    def _has_one_input_per_task(self, records: DataFrame) -> bool:
        return len(set(self._topics)) == len(self._topics) and not has_shuffle(records)


def _with_brokers(settings: Settings, bootstrap_servers: str | None) -> Settings:
    """Settings in which reading, writing and looking back all mean the same brokers."""
    if bootstrap_servers is None:
        return settings
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": bootstrap_servers})
    return settings.model_copy(update={"kafka": kafka})
