"""The queries of a job: what they write and report, and those that run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

from pyspark.sql import DataFrame, SparkSession

from headwater.collector.query import QueryDescription
from headwater.collector.streaming import (
    PreparedQuery,
    QueryHandle,
    is_finite,
    observe_row_count,
    start_query,
    table_output,
    topic_outputs,
)
from headwater.delivery.errors.plan import refuse_combined_rows
from headwater.delivery.errors.retries import RetriedDelivery
from headwater.delivery.modes import Delivery, Mode
from headwater.delivery.sink import (
    OutputTopics,
    SinkTarget,
    check_table_columns,
    has_one_source,
    has_shuffle,
    rows_to_send,
)
from headwater.errors import InputError
from headwater.kafka import Topic, write_run
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.model.run_record import RunCoverage, RunRecord
from headwater.openlineage.events import Dataset, Roles
from headwater.quality import Quality, enforced
from headwater.settings import Settings
from headwater.spark.query_runner import (
    OnBatch,
    QueryRun,
    StopSignal,
    local_checkpoint,
    run_foreach_batch,
)
from headwater.spark.row_lineage import RowCoverage
from headwater.spark.source import LINEAGE_COLUMN
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.merge_into import MergeRule
from headwater.spark.writers.rows_of_job import has_rows_of
from headwater.spark.writers.table import (
    check_columns,
    refuse_other_progress,
    table_of,
    with_stored_lineage,
    writer_of,
)
from headwater.storage.tables.contract import TableFormat
from headwater.storage.tables.registry import register

OnFailure = Literal["stop", "dead-letter"]
OnError = Literal["stop", "dead-letter"]
OutputMode = Literal["append", "update", "complete"]

DEFAULT_PARTITIONS = 2
# While one query is awaited, another one may fail.
_OTHERS_SECONDS = 0.2
# Options of Spark's source by which several tasks read one input partition.
_SPLITTING_OPTIONS = {"minpartitions", "maxrecordsperpartition"}
_CONTINUOUSLY: Mapping[str, Any] = {"processingTime": "0 seconds"}


class JobInputs:
    """The topics that a job reads."""

    def __init__(self) -> None:
        # A text for each stream or topic, to find those that are read twice.
        self._read: list[str] = []
        self._split = False
        self._partitions: list[int] = []

    def add(
        self,
        topics: Sequence[str],
        options: Mapping[str, Any],
        existing: Sequence[Topic],
        partitions: int | None = None,
    ) -> None:
        """Add a stream; `partitions` is the number for created topics, instead of the inputs'."""
        self._read += topics or [str(options)]
        self._split |= bool(_SPLITTING_OPTIONS & {name.lower() for name in options})
        self._partitions += [partitions] if partitions else [each.partitions for each in existing]

    @property
    def partitions(self) -> int:
        """Number of partitions of the topics that the job creates."""
        return max(self._partitions, default=DEFAULT_PARTITIONS)

    def one_per_task(self, records: DataFrame) -> bool:
        """Whether a task has the rows of one input partition, and no other task has them."""
        each_once = len(set(self._read)) == len(self._read) or has_one_source(records)
        return each_once and not self._split and not has_shuffle(records)


class QueryOptions(TypedDict, total=False):
    """Options of every query, described at `LineageJob.start`."""

    name: str | None
    checkpoint: Path | str | None
    trigger: Mapping[str, Any] | None
    on_batch: OnBatch | None


class TopicOptions(QueryOptions, total=False):
    """Options of `LineageJob.write`, described at `start`."""

    output_mode: OutputMode
    on_failure: OnFailure
    on_error: OnError


class TableOptions(QueryOptions, total=False):
    """Options of `LineageJob.write_table`, described at `start_table`."""

    table_format: TableFormat
    merge_on: str | None
    newest_by: Sequence[str]


COMPACT = "compact"


@dataclass(frozen=True)
class TopicOutput:
    """What Headwater's own queries do besides writing rows to a topic.

    Attributes:
        late: rows whose error has the kind `LATE` go to `<topic>-late`.
        one_per_first_parent: the rows come from a join that keeps one match for each record of its
            first input, and may choose another one when a batch is rerun.
        hidden_topics: inputs that are not reported, such as heartbeats.
        header_order: the order of job name, version and batch in the headers.
        configuration: of the Spark session while the query is started.
        while_running: entered before the query starts, and left after its end.
    """

    late: bool = False
    one_per_first_parent: bool = False
    hidden_topics: frozenset[str] = frozenset()
    header_order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION)
    on_batch: OnBatch | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    while_running: Sequence[AbstractContextManager[Any]] = ()


@dataclass(frozen=True)
class JobQuery:
    """One query of a job: its names, its session and its rows."""

    name: str
    version: str
    run_id: str
    checkpoint: Path | str
    spark: SparkSession
    settings: Settings
    rows: DataFrame
    quality: tuple[Quality, ...]
    trigger: Mapping[str, Any] | None
    accept: frozenset[str] = frozenset()
    coverage: RowCoverage = field(default_factory=RowCoverage)

    def to_topics(
        self,
        topics: OutputTopics,
        output: TopicOutput,
        mode: Mode,
        *,
        output_mode: str,
        dead_letter_failures: bool,
        dead_letter_errors: bool,
        one_input_per_task: bool,
    ) -> PreparedQuery:
        """The query that writes the rows to topics.

        Raises:
            UnsafeDeliveryError: a Spark setting would break the guarantee of the delivery mode.
        """
        target = SinkTarget(
            self.name,
            self.version,
            self.checkpoint,
            topics,
            self.trigger or _CONTINUOUSLY,
            output.header_order,
            stamp=self.settings.jobs.stamp,
            dead_letter_failures=dead_letter_failures,
            retries_errors=dead_letter_errors,
            one_input_per_task=one_input_per_task,
            one_per_first_parent=output.one_per_first_parent,
            output_mode=output_mode,
            accept=self.accept,
        )
        mode.refuse_unsafe(self.spark, target, self.settings)
        rows = rows_to_send(self.rows, topics, self.settings.jobs.max_value_bytes)
        roles = Roles(
            output.hidden_topics,
            dead_letters=topics.dead_letters,
            late=topics.late,
            parents=topics.parents,
            with_lineage=True,
        )
        lineage = self._description(topic_outputs(tuple(topics), self.settings), roles)

        def deliver(run: QueryRun) -> None:
            if self.settings.jobs.stamp == COMPACT:
                self._record_run(run.id)
            delivery = Delivery(self.spark, rows, target, self.settings, run, output.configuration)
            if dead_letter_errors:
                RetriedDelivery(mode, delivery, self._is_violation).run()
            else:
                mode.deliver(delivery)

        return PreparedQuery(replace(lineage, columns=("key", "value")), deliver, mode.name)

    def start(self, prepared: PreparedQuery, output: TopicOutput) -> QueryHandle:
        """Start the query with its expectations."""

        def prepare(resources: ExitStack) -> PreparedQuery:
            if self.quality:
                resources.enter_context(enforced(*self.quality))
            for each in output.while_running:
                resources.enter_context(each)
            return prepared

        return start_query(
            self.name,
            self.spark,
            self.checkpoint,
            prepare,
            self.settings,
            run_id=self.run_id,
            on_batch=output.on_batch,
            accept=self.accept,
        )

    def _is_violation(self, text: str) -> bool:
        """Whether a row violated an expectation that stops the query."""
        return any(each.failure(text) is not None for each in self.quality)

    def to_table(
        self, table: str | Path, table_format: TableFormat, rule: MergeRule | None
    ) -> PreparedQuery:
        """The query that appends the rows to a table or merges them; creates a missing table.

        Raises:
            InputError: a column is missing.
            LineageTableError: the table has other columns.
        """
        check_table_columns(self.rows, table)
        target = table_of(self.spark, table, table_format)
        job_run = JobRun(self.name, self.version, self.run_id)
        written = with_stored_lineage(self.rows, job_run, 0)
        target.ensure(written.schema)
        check_columns(target, written)
        known = target.known()
        register(known, self.settings)
        output = table_output(known.name, known.location, table_format)
        lineage = replace(
            self._description([output], Roles(with_lineage=True)),
            has_rows_of=partial(has_rows_of, target, self.name) if rule is None else None,
        )

        def write(run: QueryRun) -> None:
            with local_checkpoint(self.checkpoint, self.spark) as folder:
                refuse_other_progress(target, self.checkpoint, folder, self.accept)
            run_foreach_batch(
                observe_row_count(self.rows, self.settings, self.name),
                writer_of(target, job_run, rule),
                run,
                self.settings,
                name=self.name,
                checkpoint=self.checkpoint,
                trigger=self.trigger or _CONTINUOUSLY,
            )

        return PreparedQuery(replace(lineage, unnested=(LINEAGE_COLUMN,)), write)

    def _record_run(self, run_id: str) -> None:
        """Before the first record, so that a reader of the records finds their job."""
        coverage = RunCoverage(self.coverage.kind, self.coverage.steps, self.coverage.reason)
        started = RunRecord(self.name, self.version, time.time_ns() // 1_000_000, coverage)
        create = self.settings.jobs.create_topics
        write_run(run_id, started, self.settings.kafka, create=create)

    def _description(self, outputs: Sequence[Dataset], roles: Roles) -> QueryDescription:
        return QueryDescription(
            self.name,
            self.version,
            self.checkpoint,
            self.rows,
            outputs,
            roles,
            is_finite(self.trigger),
            quality=self.quality,
            row_lineage=self.coverage,
        )


class RunningQueries:
    """The queries that a job has started."""

    def __init__(self) -> None:
        self._queries: list[QueryHandle] = []

    def add(self, query: QueryHandle) -> None:
        self._queries.append(query)

    def has(self, name: str) -> bool:
        """Whether a query of this name runs."""
        return any(query.name == name and query.is_active for query in self._queries)

    def await_all(self, timeout: float | None) -> bool:
        """Wait until all queries have ended, at most `timeout` seconds; returns whether they have.

        If one fails or a signal requests a stop, the others are stopped.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        stop = StopSignal()
        with stop.on_signals():
            while not stop.requested and not any(query.exception() for query in self._queries):
                running = [query for query in self._queries if query.is_active]
                if not running:
                    break
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                running[0].has_ended(_OTHERS_SECONDS)
            self.end(raise_errors=True)
        return True

    def end(self, *, raise_errors: bool) -> None:
        """Stop the queries that still run; an error that was not raised yet is raised."""
        queries, self._queries = self._queries, []
        # All at once: each completes its micro-batch.
        for query in queries:
            query.request_stop()
        for query in queries:
            query.stop()
        for query in queries:
            if raise_errors and not query.was_awaited:
                query.await_termination()


def isolates_errors(on_error: OnError, rows: DataFrame) -> bool:
    """Whether records that fail become dead letters, which must be possible for these rows.

    Raises:
        InputError: it has an unknown value, or a record that fails could not be isolated.
    """
    if on_error not in get_args(OnError):
        raise InputError(f"unknown on_error: {on_error!r}", hint="known: stop, dead-letter")
    if on_error == "dead-letter":
        refuse_combined_rows(rows)
    return on_error == "dead-letter"


def merge_rule(rows: DataFrame, key: str | None, newest: Sequence[str]) -> MergeRule | None:
    """How rows are merged into a table; None if they are appended.

    Raises:
        InputError: a column is missing.
    """
    if key is None:
        if newest:
            raise InputError("newest_by is for merges: set merge_on, too")
        return None
    for column in (key, *newest):
        if column.partition(".")[0] not in rows.columns:
            raise InputError(
                f"rows have no column {column!r} to merge by: {', '.join(rows.columns)}"
            )
    # The offset is the order in which the records of a key were written.
    return MergeRule(key, newest or (f"{LINEAGE_COLUMN}.offset",))
