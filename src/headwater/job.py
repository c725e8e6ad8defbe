"""Streaming jobs with row lineage.

    from headwater import LineageJob

    job = LineageJob("page_upper", version="1.2.0")
    visits = job.read("visits")
    job.write(visits.select("key", F.upper("value").alias("value"), "lineage"), "visits-upper")

`read` adds the column `lineage`, which every transformation has to keep: `select` it, and combine
it with `join_lineage` and `merge_lineage`. `write` turns it into headers and delivers exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from headwater.collector.query import QueryDescription
from headwater.collector.streaming import (
    is_finite,
    observe_row_count,
    query_run,
    table_output,
    topic_outputs,
)
from headwater.delivery.modes import DEFAULT_MODE, Delivery, Mode, delivery_mode
from headwater.delivery.sink import (
    SinkTarget,
    check_table_columns,
    check_topic_columns,
    has_shuffle,
    rows_to_send,
    topics_for_parents,
)
from headwater.kafka import ensure_topic
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import dead_letter_topic, late_topic, parents_topic
from headwater.openlineage.events import Dataset, kafka_topic
from headwater.openlineage.progress import Roles
from headwater.quality import Expectation, Quality, enforced
from headwater.settings import Settings, load
from headwater.spark.query_runner import (
    OnBatch,
    QueryRun,
    StopSignal,
    new_run_id,
    run_foreach_batch,
    run_interruptibly,
)
from headwater.spark.session import create_session
from headwater.spark.source import LINEAGE_COLUMN, read_topic_stream, with_brokers, with_lineage
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import check_columns, table_of, with_stored_lineage, writer_of
from headwater.storage.checkpoint import checkpoint_location
from headwater.storage.tables.contract import TableFormat
from headwater.storage.tables.registry import register

OnFailure = Literal["stop", "dead-letter"]

_DEFAULT_PARTITIONS = 2


class LineageJob:
    """A job that reads topics and writes a topic or a table with the parents of every record.

    Args:
        checkpoint: a local folder, as path or text, or a URI that Spark knows, such as
            `s3a://bucket/folder`. Default: `checkpoints/NAME` in the home.
    """

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
        self._settings = with_brokers(settings or load(), bootstrap_servers)
        self._name = name
        self._version = version or self._settings.jobs.version
        self._checkpoint = checkpoint_location(name, checkpoint, self._settings)
        self._mode = delivery_mode(delivery) if isinstance(delivery, str) else delivery
        self._order = tuple(header_order)
        self._topics: list[str] = []
        self._additional_topics: set[str] = set()
        self._partitions: list[int] = []
        self._quality: list[Quality] = []
        self.spark: SparkSession = create_session(
            name,
            self._settings,
            connectors=connectors,
            defaults=self._mode.session_options(self._settings),
            progress=progress,
        )

    def read(
        self,
        topic: str,
        *,
        starting_offsets: str = "earliest",
        partitions: int = _DEFAULT_PARTITIONS,
        additional_topics: Sequence[str] = (),
        max_records_per_batch: int | None = None,
    ) -> DataFrame:
        """Read a topic as a stream of rows `key, value, topic, partition, offset, timestamp,
        headers` and `lineage`.

        Args:
            partitions: number of partitions of the topic if it has to be created.
            additional_topics: further topics in the same stream, which must exist.
        """
        self._topics.append(topic)
        self._additional_topics.update(additional_topics)
        if self._settings.jobs.create_topics:
            existing = ensure_topic(topic, partitions, self._settings.kafka)
            self._partitions.append(existing.partitions)
        limit = {"maxOffsetsPerTrigger": str(max_records_per_batch)}
        stream = read_topic_stream(
            self.spark,
            ",".join((topic, *additional_topics)),
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
        """Measure rows while they are written: counts, bounds and expectations, which the catalog
        shows with the output. Returns the rows to write.

        Args:
            name: name of the measurement. Default: the job's name, with a number from the second.
            columns: columns to measure. Default: the first ones.
            topic: the input topic of the rows, to show the results there instead.

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
        """Write rows with `value`, `lineage` and optionally `key`; returns when the query ends or
        is stopped.

        KeyboardInterrupt and SystemExit, which a signal handler may raise, stop the query after
        its running micro-batch and are raised then.

        Args:
            on_failure: for a record that Kafka rejects, such as for its size: `stop` with its
                address in the error, or send it to the `dead-letter` topic.
            late_output: send rows whose error has the kind `LATE` to `<topic>-late`.
            one_per_first_parent: the rows come from a join that keeps one match for each record
                of its first input, and may choose another one when a batch is rerun.
            on_batch: receives Spark's progress of each micro-batch; an error that it raises stops
                the query.

        Raises:
            InputError: a column is missing.
            UnsafeDeliveryError: a Spark setting would break the guarantee of the delivery mode.
            QueryFailedError: the query failed; the next start continues where it stopped.
            ExpectationFailedError: a row violated an expectation of severity `fail`.
        """
        check_topic_columns(records, topic)
        late = (late_topic(topic),) if late_output else ()
        topics = (topic, dead_letter_topic(topic), *late)
        if self._settings.jobs.create_topics:
            partitions = max(self._partitions, default=_DEFAULT_PARTITIONS)
            for name in (*topics, *topics_for_parents(records, topic)):
                ensure_topic(name, partitions, self._settings.kafka)
        target = SinkTarget(
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
        roles = Roles(
            frozenset(self._additional_topics),
            dead_letter=topics[1],
            late=late[0] if late else None,
            parents=parents_topic(topic),
            with_lineage=True,
        )
        description = self._description(
            records, topic_outputs(topics, self._settings), roles, trigger
        )
        lineage = replace(description, columns=("key", "value"))

        def deliver(run: QueryRun) -> None:
            self._mode.deliver(Delivery(self.spark, rows, target, self._settings, run))

        with self._enforced():
            self._mode.refuse_unsafe(self.spark, target)
            self._run(deliver, lineage, on_batch=on_batch)

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
        reads. A missing table is created.

        Args:
            table: a folder for Delta, a name such as `demo.news.visits` for Iceberg.

        Raises:
            InputError: a column is missing.
            LineageTableError: the table has other columns.
            QueryFailedError: the query failed; the next start continues where it stopped.
            ExpectationFailedError: a row violated an expectation of severity `fail`.
        """
        check_table_columns(rows, table)
        target = table_of(self.spark, table, table_format)
        run_id = new_run_id()
        job_run = JobRun(self._name, self._version, run_id)
        written = with_stored_lineage(rows, job_run, 0)
        target.ensure(written.schema)
        check_columns(target, written)
        known = target.known()
        register(known, self._settings)
        output = table_output(known.name, known.location, table_format)
        roles = Roles(frozenset(self._additional_topics), with_lineage=True)
        description = self._description(rows, [output], roles, trigger)
        lineage = replace(description, unnested=(LINEAGE_COLUMN,))

        def append(run: QueryRun) -> None:
            run_foreach_batch(
                observe_row_count(rows, self._settings, self._name),
                writer_of(target, job_run),
                run,
                self._settings,
                name=self._name,
                checkpoint=self._checkpoint,
                trigger=trigger or {"processingTime": "0 seconds"},
            )

        with self._enforced():
            self._run(append, lineage, run_id=run_id)

    def _run(
        self, write: Callable[[QueryRun], None], lineage: QueryDescription, **options: Any
    ) -> None:
        """Run one query with lineage until it ends, is stopped, or this thread is interrupted."""
        spark, settings, stop = self.spark, self._settings, StopSignal()

        def work() -> None:
            with query_run(spark, self._checkpoint, lineage, settings, stop=stop, **options) as run:
                write(run)

        run_interruptibly(work, stop, settings)

    @contextmanager
    def _enforced(self) -> Iterator[None]:
        """Enforce the expectations for one query."""
        try:
            with ExitStack() as checks:
                for quality in self._quality:
                    checks.enter_context(enforced(quality))
                yield
        finally:
            self._quality.clear()

    def _description(
        self,
        rows: DataFrame,
        outputs: Sequence[Dataset],
        roles: Roles,
        trigger: Mapping[str, Any] | None,
    ) -> QueryDescription:
        return QueryDescription(
            self._name,
            self._version,
            self._checkpoint,
            rows,
            outputs,
            roles,
            is_finite(trigger),
            quality=tuple(self._quality),
        )

    def _has_one_input_per_task(self, records: DataFrame) -> bool:
        return len(set(self._topics)) == len(self._topics) and not has_shuffle(records)
