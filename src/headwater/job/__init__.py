"""Streaming jobs with row lineage.

    from headwater import LineageJob

    job = LineageJob("page_upper", version="1.2.0")
    visits = job.read("visits")
    job.write(visits.select("key", F.upper("value").alias("value")), "visits-upper")

`write` finds the parents of every row in the query's plan and delivers each row once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from pyspark.sql import DataFrame, SparkSession

from headwater.collector.checkpoint_guard import check_accepted
from headwater.collector.streaming import PreparedQuery, QueryHandle
from headwater.delivery.modes import Mode
from headwater.delivery.sink import OutputTopics, check_topic_columns, topics_for_parents
from headwater.errors import InputError
from headwater.job.delivery import JobDelivery
from headwater.job.queries import (
    JobInputs,
    JobQuery,
    OnError,
    OnFailure,
    OutputMode,
    RunningQueries,
    TableOptions,
    TopicOptions,
    TopicOutput,
    isolates_errors,
    merge_rule,
)
from headwater.kafka import ensure_topic, input_topic
from headwater.model.progress import Progress, no_progress
from headwater.openlineage.events import kafka_topic
from headwater.quality import Expectation, Quality
from headwater.settings import Settings, command_line, load
from headwater.spark.query_runner import OnBatch, new_run_id
from headwater.spark.row_lineage import RowsWithLineage, add_row_lineage
from headwater.spark.session import running_session, session_for
from headwater.spark.source import check_source, read_stream, with_brokers, with_lineage
from headwater.storage.checkpoint import checkpoint_location
from headwater.storage.tables.contract import TableFormat

_STAMPS = ("full", "compact")

__all__ = ["LineageJob", "OnError", "OnFailure", "OutputMode", "TopicOutput"]


class LineageJob:
    """A job that reads topics and writes topics or tables with the parents of every record.

    With `with`, its end stops running queries after their micro-batch, and a session of the job.

    Args:
        name: name of the job: in the headers of its records, in the catalog, and of its query.
        spark: your own session, whose configuration is not changed. It needs Headwater's jars:
            `headwater jars path` prints them. Default: the running session, or a new one.
        version: version of the job, in the headers. Default: the setting `jobs.version`.
        stamp: `full` or `compact`, see docs/concepts/lineage-header.md. Default: `jobs.stamp`.
        delivery: delivery mode, see docs/concepts/delivery.md. Default: that of the checkpoint;
            for a new one `exactly-once`, or `transactional` where that can't be guaranteed.
            `headwater run --delivery` takes precedence.
        checkpoint: a local folder, or a URI that Spark knows, such as `s3a://bucket/folder`.
            Default: `checkpoints/NAME` in the home. `headwater run --checkpoint` takes precedence.
        settings: Headwater's settings. Default: those of the file and the environment.
        bootstrap_servers: Kafka brokers. Default: the setting `kafka.bootstrap_servers`.
        accept: what a start otherwise refuses, see docs/concepts/delivery.md.
        connectors: what a new session needs: `kafka`, `delta`, `iceberg`, `avro`.
        progress: called while a new session downloads its jars.

    Attributes `spark` and `settings`: the session and the settings.

    Raises:
        InputError: there is no such delivery mode or stamp, `accept` has an unknown name, or
            the session is of Spark Connect.
        NotInstalledError: the session lacks a connector or Headwater's jar.
    """

    def __init__(
        self,
        name: str,
        *,
        spark: SparkSession | None = None,
        version: str | None = None,
        stamp: str | None = None,
        delivery: str | Mode | None = None,
        checkpoint: Path | str | None = None,
        settings: Settings | None = None,
        bootstrap_servers: str | None = None,
        accept: Sequence[str] = (),
        connectors: Sequence[str] = ("kafka",),
        progress: Progress = no_progress,
    ) -> None:
        self.settings = _with_stamp(with_brokers(settings or load(), bootstrap_servers), stamp)
        self._name = name
        self._version = version or self.settings.jobs.version
        chosen = command_line.current
        self._delivery = JobDelivery(chosen.delivery or delivery or None)
        self._given_checkpoint = chosen.checkpoint_for(name) if chosen.checkpoint else checkpoint
        self._accept = check_accepted((*accept, *chosen.accept))
        self._inputs = JobInputs()
        self._quality: list[Quality] = []
        self._queries = RunningQueries()
        self._own_session = spark is None and running_session() is None
        defaults = self._delivery.usual.session_options(self.settings)
        self.spark = session_for(name, spark, connectors, self.settings, defaults, progress)

    def read(
        self,
        *topics: str,
        starting_offsets: str = "earliest",
        partitions: int | None = None,
        **options: str | float | bool,
    ) -> DataFrame:
        """Read topics as one stream of rows `key, value, topic, partition, offset, timestamp,
        headers` and `lineage`.

        Args:
            topics: names of topics; none with `subscribePattern` or `assign`.
            starting_offsets: where to start without a checkpoint: `earliest`, `latest` or JSON as
                for Spark's source.
            partitions: number of partitions of output topics that the job creates. Default: the
                largest number of the input topics, which are never created.
            options: of Spark's Kafka source, such as `minPartitions`, `maxOffsetsPerTrigger`,
                `subscribePattern`, `failOnDataLoss` (true unless set) or `kafka.…`.

        Raises:
            InputError: no topic, or an option that would lose the lineage.
            TopicNotFoundError: a topic does not exist.
        """
        check_source(topics, self.settings, options)
        existing = [input_topic(topic, self.settings.kafka) for topic in topics]
        options = {**self._delivery.usual.source_options(options, self.settings), **options}
        self._inputs.add(topics, options, existing, partitions)
        stream = read_stream(
            self.spark, topics, self.settings, starting_offsets=starting_offsets, options=options
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
        shows with the output. Returns the rows to write by the next query of the job.

        Args:
            expectations: what must be true for every row.
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
            dataset=(topic and kafka_topic(self.settings.bootstrap_servers, topic)) or None,
            settings=self.settings,
        )
        self._quality.append(quality)
        return quality.measure(rows)

    def write(
        self, records: DataFrame, topic: str | Sequence[str], **options: Unpack[TopicOptions]
    ) -> None:
        """Write rows to a topic; returns when the query ends or is stopped.

        The arguments are those of `start`. KeyboardInterrupt and SystemExit, which a signal handler
        may raise, stop the query after its running micro-batch and are raised then.

        Raises:
            QueryFailedError: the query failed; the next start continues where it stopped.
            ExpectationFailedError: a row violated an expectation of severity `fail`.
        """
        self.start(records, topic, **options).wait()

    def start(
        self,
        records: DataFrame,
        topic: str | Sequence[str],
        *,
        name: str | None = None,
        checkpoint: Path | str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: OutputMode = "append",
        on_failure: OnFailure = "stop",
        on_error: OnError = "stop",
        on_batch: OnBatch | None = None,
    ) -> QueryHandle:
        """Start a query that writes rows to a topic, and return while it runs.

        Rows have the column `value` and optionally `key`, `partition` and `headers`, as for Spark's
        Kafka sink. A column `lineage` is added unless they have it.

        Args:
            records: the rows, from one or more streams of `read`.
            topic: the output topic; or several, between which the column `topic` of a row chooses.
                A row with another topic goes to the dead letter topic of the first.
            name: of a further query, its records and its run. Default: the job's name.
            checkpoint: of a further query. Default: `checkpoints/NAME` in the home.
            trigger: arguments of Spark's `DataStreamWriter.trigger`. Default: no pause.
            output_mode: as Spark's: `append`, `update` or `complete`.
            on_failure: for a record that Kafka rejects, such as for its size: `stop` with its
                address in the error, or send it to the `dead-letter` topic.
            on_error: for a record for which a function or an expression of `records` raises an
                error: `stop`, or after `jobs.max_attempts` attempts send it to the `dead-letter`
                topic. Only for rows of one record each; see docs/guides/dead-letter.md.
            on_batch: receives Spark's progress of each micro-batch; its errors stop the query.

        Raises:
            InputError: a column is missing, the query runs, `on_error` can't isolate a record, or
                exactly-once delivery can't distinguish the rows by their parents.
            UnsafeDeliveryError: a Spark setting would break the guarantee of the delivery mode.
            CheckpointError: another query uses the checkpoint, or it belongs to another one.
            QueryFailedError: the query could not be started.
        """
        output = TopicOutput(on_batch=on_batch)
        return self.start_topic(
            records,
            topic,
            output,
            name=name,
            checkpoint=checkpoint,
            trigger=trigger,
            output_mode=output_mode,
            on_failure=on_failure,
            on_error=on_error,
        )

    def start_topic(
        self,
        records: DataFrame,
        topic: str | Sequence[str],
        output: TopicOutput,
        **options: Unpack[TopicOptions],
    ) -> QueryHandle:
        """Internal: `start` for Headwater's own queries."""
        topics = OutputTopics((topic,) if isinstance(topic, str) else tuple(topic), output.late)
        check_topic_columns(records, *topics.outputs)
        name, given = options.get("name"), options.get("checkpoint")
        found, mode = self._delivery.of(records, self.checkpoint_of(name, given))
        query = self._query(found, name, given, options.get("trigger"))
        if self.settings.jobs.create_topics:
            for each in (*topics, *topics_for_parents(found.rows, topics)):
                ensure_topic(each, self._inputs.partitions, self.settings.kafka)
        prepared = query.to_topics(
            topics,
            output,
            mode,
            output_mode=options.get("output_mode", "append"),
            dead_letter_failures=options.get("on_failure") == "dead-letter",
            dead_letter_errors=isolates_errors(options.get("on_error", "stop"), found.rows),
            one_input_per_task=self._inputs.one_per_task(found.rows),
        )
        return self._start(query, prepared, output)

    def write_table(
        self, rows: DataFrame, table: str | Path, **options: Unpack[TableOptions]
    ) -> None:
        """Write rows to a table; returns when the query ends or is stopped.

        The arguments are those of `start_table`; interrupts and errors as with `write`.
        """
        self.start_table(rows, table, **options).wait()

    def start_table(
        self,
        rows: DataFrame,
        table: str | Path,
        *,
        table_format: TableFormat = "delta",
        merge_on: str | None = None,
        newest_by: Sequence[str] = (),
        name: str | None = None,
        checkpoint: Path | str | None = None,
        trigger: Mapping[str, Any] | None = None,
        on_batch: OnBatch | None = None,
    ) -> QueryHandle:
        """Start a query that appends rows to a table, or merges them by a key, each batch once.

        The column `lineage` becomes a struct with the addresses of the parents, which `impact`
        reads. A missing table is created.

        Args:
            rows: the rows, with the columns of the table. `lineage` is added unless they have it.
            table: a folder for Delta, a name such as `demo.news.visits` for Iceberg.
            table_format: `delta` or `iceberg`.
            merge_on: a column that identifies a row: an existing row with the same value is
                replaced. Default: rows are appended.
            newest_by: columns by which the greatest of several rows of one key in a micro-batch is
                chosen.
            name: name of the query, for each further query of the job. Default: the job's name.
            checkpoint: of a further query. Default: `checkpoints/NAME` in the home.
            trigger: arguments of Spark's `DataStreamWriter.trigger`.
            on_batch: as for `start`.

        Raises:
            InputError: a column is missing.
            LineageTableError: the table has other columns.
            CheckpointError: another query uses the checkpoint, it belongs to another one, or it is
                new and the table has rows of this job.
            QueryFailedError: the query could not be started.
        """
        found = add_row_lineage(rows)
        rule = merge_rule(found.rows, merge_on, newest_by)
        query = self._query(found, name, checkpoint, trigger)
        prepared = query.to_table(table, table_format, rule)
        return self._start(query, prepared, TopicOutput(on_batch=on_batch))

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until all queries of the job have ended, at most `timeout` seconds; returns whether
        they have. If one fails, the others are stopped.

        Raises:
            QueryFailedError: a query failed.
        """
        return self._queries.await_all(timeout)

    def checkpoint_of(self, name: str | None, checkpoint: Path | str | None) -> Path | str:
        """Internal: the checkpoint of a query with these arguments."""
        chosen = name or self._name
        if chosen == self._name:
            checkpoint = checkpoint or self._given_checkpoint
        return checkpoint_location(chosen, checkpoint, self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._queries.end(raise_errors=raised[0] is None)
        finally:
            if self._own_session:
                self.spark.stop()

    def _start(self, query: JobQuery, prepared: PreparedQuery, output: TopicOutput) -> QueryHandle:
        self._quality = []
        handle = query.start(prepared, output)
        self._queries.add(handle)
        return handle

    def _query(
        self,
        found: RowsWithLineage,
        name: str | None,
        checkpoint: Path | str | None,
        trigger: Mapping[str, Any] | None,
    ) -> JobQuery:
        """The next query, with the expectations since the last one."""
        chosen = name or self._name
        if self._queries.has(chosen):
            raise InputError(
                f"a query {chosen!r} of this job is running",
                hint="give each further query a name and a checkpoint: start(…, name=…)",
            )
        return JobQuery(
            chosen,
            self._version,
            new_run_id(),
            self.checkpoint_of(name, checkpoint),
            self.spark,
            self.settings,
            found.rows,
            tuple(self._quality),
            trigger,
            self._accept,
            found.coverage,
        )


def _with_stamp(settings: Settings, stamp: str | None) -> Settings:
    """The settings with this stamp; None keeps theirs.

    Raises:
        InputError: there is no stamp of this name.
    """
    if stamp is None:
        return settings
    if stamp not in _STAMPS:
        raise InputError(f"unknown stamp: {stamp!r}", hint=f"known: {', '.join(_STAMPS)}")
    jobs = settings.jobs.model_copy(update={"stamp": stamp})
    return settings.model_copy(update={"jobs": jobs})
