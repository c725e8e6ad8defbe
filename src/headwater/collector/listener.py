"""Lineage of the streaming queries of any Spark session.

    from headwater.collector.listener import track_streaming

    track_streaming(spark)
    rows.writeStream.format("kafka")….start().awaitTermination()

Each query is a job with the name of its `queryName` or else of the application; its run has Spark's
run id. The outputs of a `foreachBatch` are not in the plan: they are found when it writes to them.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from headwater.collector.batch_outputs import BatchOutputs
from headwater.collector.columns import Description, describe_plan
from headwater.collector.configuration import with_spark_submit_options
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.sources import schemas_in, table_of, topic_dataset
from headwater.collector.streaming import SELF_REPORTING_QUERIES, emitter_of
from headwater.errors import NotInstalledError
from headwater.model.local_files import local_path
from headwater.openlineage.events import Dataset, file_location
from headwater.openlineage.facets import registered_job_facets
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings, load
from headwater.spark.row_lineage import RowCoverage, coverage_of_query, original_plan
from headwater.spark.session import refuse_connect

_LOG = logging.getLogger(__name__)

_FILE_SINK = re.compile(r"FileSink\[(.+)\]")
_DELTA_SINK = "DeltaSink"
_FOREACH_BATCH_SINK = "ForeachBatchSink"
# Spark's, and the one that row lineage of plain queries replaces it with.
_KAFKA_SINKS = ("KafkaTable", "ReplacedKafkaSink")
# The sink of a `LineageJob`, which reports itself.
_OWN_SINK = "dev.headwater.delivery."
# Triggers with which a query ends by itself.
_FINITE = ("AvailableNowTrigger", "OneTimeTrigger")


def track_streaming(
    spark: SparkSession,
    settings: Settings | None = None,
    *,
    outputs: Mapping[str, Sequence[Dataset]] | None = None,
) -> StreamTracker | None:
    """Report all streaming queries that this session starts from now on.

    Queries of a `LineageJob` and of the shipped jobs report themselves and are skipped. Returns
    None if lineage is disabled. A session has one tracker: a further call adds outputs and, if
    `settings` is passed, replaces the settings for later queries.

    Args:
        outputs: query name -> output datasets, for queries whose outputs Spark does not know.

    Raises:
        InputError: it is a session of Spark Connect.
    """
    refuse_connect(spark)
    tracker = _tracker_of(spark)
    if tracker is not None:
        tracker.update(settings, outputs or {})
        return tracker if tracker.is_on else None
    settings = settings or with_spark_submit_options(load())
    if not settings.lineage.enabled:
        return None
    tracker = StreamTracker(spark, settings, outputs or {})
    spark.streams.addListener(tracker)
    _trackers.append(tracker)
    atexit.register(tracker.stop)
    return tracker


# Trackers that were added to a session; the user may have removed them from it.
_trackers: list[StreamTracker] = []


def _tracker_of(spark: SparkSession) -> StreamTracker | None:
    """The tracker that is registered with this session."""
    registered = spark.streams._jsqm.listListeners()  # noqa: SLF001
    for tracker in list(_trackers):
        if tracker.belongs_to(spark):
            if any(tracker.is_registered_as(each) for each in registered):
                return tracker
            _trackers.remove(tracker)
    return None


class StreamTracker(StreamingQueryListener):
    """Reports the queries of a session; errors never propagate to a query."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        outputs: Mapping[str, Sequence[Dataset]],
    ) -> None:
        self._session = spark
        self._settings = settings
        self._outputs = outputs
        self._access = threading.Lock()
        self._reporters: dict[str, tuple[StreamingRunReporter, Any]] = {}
        # Name of the application; it may differ from that of the Spark context.
        self.application = str(spark.sparkContext.appName)

    def update(
        self,
        settings: Settings | None,
        outputs: Mapping[str, Sequence[Dataset]],
    ) -> None:
        """Change settings and outputs for queries that start later."""
        self._settings = settings or self._settings
        self._outputs = {**self._outputs, **outputs}

    @property
    def is_on(self) -> bool:
        return self._settings.lineage.enabled

    def belongs_to(self, spark: SparkSession) -> bool:
        own = self._session
        return own.sparkContext is spark.sparkContext and bool(
            own._jsparkSession == spark._jsparkSession  # noqa: SLF001
        )

    def is_registered_as(self, listener: Any) -> bool:
        """Whether this JVM object is the tracker."""
        return bool(self._jlistener == listener)

    def onQueryStarted(self, event: Any) -> None:
        try:
            self._start(event)
        except Exception as error:
            _LOG.warning("no lineage for query %r: %s: %s", event.name, type(error).__name__, error)

    def onQueryProgress(self, event: Any) -> None:
        with self._access:
            entry = self._reporters.get(str(event.progress.runId))
        if entry is not None:
            progress = json.loads(event.progress.json)
            if "addBatch" in progress.get("durationMs", {}):
                entry[0].add(progress)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to report."""

    def onQueryTerminated(self, event: Any) -> None:
        self._end(str(event.runId), event.exception)

    def stop(self) -> None:
        """End all open runs at the end of the program: completed, failed or, if active, stopped."""
        with self._access:
            open_runs = dict(self._reporters)
        if open_runs:
            # Spark posts the progress of the last batch asynchronously.
            with suppress(Exception):  # The JVM may have exited.
                bus: Any = self._session.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
                bus.waitUntilEmpty(int(self._settings.lineage.close_seconds * 1000))
        for run_id, (_, query) in open_runs.items():
            failure = None
            with suppress(Exception):
                error = query.exception()
                failure = str(error.get()) if error.isDefined() else None
            self._end(run_id, failure)

    def _start(self, event: Any) -> None:
        active = self._session.streams.get(str(event.id))
        if active is None:
            return
        java: Any = active._jsq  # noqa: SLF001
        query = java.streamingQuery()
        sink = query.sink()
        if str(sink.getClass().getName()).startswith(_OWN_SINK):
            return
        name = event.name or self.application
        if name in SELF_REPORTING_QUERIES or not self._settings.lineage_enabled_for(name):
            return
        emitter = emitter_of(self._settings)
        if emitter is None:
            return
        # Without using the session: Spark calls this while it starts the query.
        seconds = self._settings.lineage.analysis_seconds
        plan = original_plan(query.analyzedPlan())
        description = describe_plan(plan, seconds=seconds)
        lineage = QueryDescription(
            name,
            None,
            _checkpoint(query),
            None,
            list(self._outputs.get(name, ())) or _sink_datasets(query, sink),
            files_only=_writes_files(sink),
            job_facets=registered_job_facets(self.application),
            row_lineage=self._coverage(event.name),
            batch_outputs=self._batch_outputs(str(event.runId), sink, plan),
        )
        self._begin(str(event.runId), lineage, emitter, description, java)

    def _coverage(self, query: str | None) -> RowCoverage | None:
        try:
            # The extension names a query without a name after the Spark application.
            return coverage_of_query(query or str(self._session.sparkContext.appName))
        except Exception as error:
            # Such as another version of Headwater's jar.
            _LOG.warning("row lineage of query %r is not reported: %s", query, error)
            return None

    def _batch_outputs(self, run_id: str, sink: Any, plan: Any) -> BatchOutputs | None:
        if _kind(sink) != _FOREACH_BATCH_SINK:
            return None
        try:
            seconds = self._settings.lineage.analysis_seconds
            return BatchOutputs(self._session, run_id, plan, seconds)
        except NotInstalledError as error:
            _LOG.warning("outputs of foreachBatch are not reported: %s", error)
            return None

    def _begin(
        self,
        run_id: str,
        lineage: QueryDescription,
        emitter: Any,
        description: Description,
        query: Any,
    ) -> None:
        schema_of = schemas_in(self._session)
        try:
            reporter = StreamingRunReporter(
                lineage, run_id, self._settings, emitter, description, schema_of
            )
        except Exception:
            emitter.close()
            raise
        reporter.start()
        with self._access:
            self._reporters[run_id] = reporter, query

    def _end(self, run_id: str, failure: str | None) -> None:
        with self._access:
            entry = self._reporters.pop(run_id, None)
        if entry is None:
            return
        reporter, query = entry
        reporter.end(failure, stopped=failure is None and not _is_done(query))


def _is_done(query: Any) -> bool:
    """Whether a query with a finite trigger has processed everything and was not stopped."""
    try:
        execution = query.streamingQuery()
        kind = str(execution.trigger().getClass().getName())
        if query.isActive() or not any(name in kind for name in _FINITE):
            return False
        # A batch that was not committed was interrupted.
        return bool(execution.availableOffsets().equals(execution.committedOffsets()))
    except Exception:
        return False


def _checkpoint(query: Any) -> Path | str:
    location = str(query.resolvedCheckpointRoot())
    # Spark resolves it: a local folder has its scheme.
    return (local_path(location) if location.startswith("file:") else None) or location


def _sink_datasets(query: Any, sink: Any) -> list[Dataset]:
    """Output datasets of Spark's own sinks, and of Delta and Iceberg."""
    kind = _kind(sink)
    try:
        if kind in _KAFKA_SINKS:
            options = _options(query)
            topic = options.get("topic")
            servers = options.get("kafka.bootstrap.servers", "")
            return [topic_dataset(servers, topic)] if topic else []
        if kind == _DELTA_SINK:
            return [delta_table(str(sink.path()))]
        file_sink = _FILE_SINK.match(str(sink))
        if file_sink:
            return [file_location(file_sink[1]).dataset()]
        return table_of(sink)
    except Exception:
        return []


def _writes_files(sink: Any) -> bool:
    """Whether this is a file sink, which reports no row count to Spark."""
    return _kind(sink) == _DELTA_SINK or _FILE_SINK.match(str(sink)) is not None


def _kind(sink: Any) -> str:
    return str(sink.getClass().getSimpleName())


def _options(query: Any) -> dict[str, str]:
    """Options of the query; Spark has no accessor for them."""
    field = query.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    options = field.get(query)
    known = {}
    for name in ("topic", "kafka.bootstrap.servers"):
        value = options.get(name)
        if value.isDefined():
            known[name] = str(value.get())
    return known
