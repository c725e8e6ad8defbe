"""Lineage of streaming queries that are not run by Headwater: one call, for all of a session.

    from headwater.collector.listener import track_streaming

    track_streaming(spark)
    rows.writeStream.format("kafka")….start().awaitTermination()

Each query is a job, named after its `queryName` or else after the application; the run has Spark's
own run id. What a `foreachBatch` writes to can't be seen: it is named with `outputs`.
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

from headwater.collector.configuration import as_submitted
from headwater.collector.description import Description, describe_plan
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.schemas import schemas_in
from headwater.collector.sources import table_of, topic_dataset
from headwater.collector.streaming import SELF_REPORTING_QUERIES, emitter_of
from headwater.openlineage.events import Dataset, file_location
from headwater.openlineage.job_facets import described
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings, load

_LOG = logging.getLogger(__name__)

_FILE_SINK = re.compile(r"FileSink\[(.+)\]")
_DELTA_SINK = "DeltaSink"
# Triggers after which a query that ended has done what it was asked for.
_FINITE = ("AvailableNowTrigger", "OneTimeTrigger")


def track_streaming(
    spark: SparkSession,
    settings: Settings | None = None,
    *,
    outputs: Mapping[str, Sequence[Dataset]] | None = None,
) -> StreamTracker | None:
    """Tell the catalog of all streaming queries that this session starts from now on.

    Queries of a `LineageJob` and of the shipped jobs tell of themselves and are left out. Nothing
    happens if lineage is switched off; None is returned then. A session has one tracker: a further
    call gives it further outputs and, for the queries to come, settings, if it is given some.

    Args:
        outputs: what queries write, by query name, where Spark does not know it.
    """
    tracker = _tracker_of(spark)
    if tracker is not None:
        tracker.retune(settings, outputs or {})
        return tracker if tracker.is_on else None
    settings = settings or as_submitted(load())
    if not settings.lineage.enabled:
        return None
    tracker = StreamTracker(spark, settings, outputs or {})
    spark.streams.addListener(tracker)
    _trackers.append(tracker)
    atexit.register(tracker.stop)
    return tracker


# Those that were added to a session, and may have been removed from it by the user.
_trackers: list[StreamTracker] = []


def _tracker_of(spark: SparkSession) -> StreamTracker | None:
    """The one that this session tells of its queries."""
    listening = spark.streams._jsqm.listListeners()  # noqa: SLF001
    for tracker in list(_trackers):
        if tracker.belongs_to(spark):
            if any(tracker.is_told_by(each) for each in listening):
                return tracker
            _trackers.remove(tracker)
    return None


class StreamTracker(StreamingQueryListener):
    """Hears of queries from Spark; nothing that goes wrong here reaches a query."""

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
        self._tellers: dict[str, tuple[StreamingRunReporter, Any]] = {}
        # The application that the queries belong to, where it has another name than the context.
        self.application = str(spark.sparkContext.appName)

    def retune(
        self,
        settings: Settings | None,
        outputs: Mapping[str, Sequence[Dataset]],
    ) -> None:
        """For queries that start from now on; what is not given stays as it is."""
        self._settings = settings or self._settings
        self._outputs = {**self._outputs, **outputs}

    @property
    def is_on(self) -> bool:
        return self._settings.lineage.enabled

    def belongs_to(self, spark: SparkSession) -> bool:
        mine = self._session
        return mine.sparkContext is spark.sparkContext and bool(
            mine._jsparkSession == spark._jsparkSession  # noqa: SLF001
        )

    def is_told_by(self, listener: Any) -> bool:
        """Whether this is how the JVM knows the tracker."""
        return bool(self._jlistener == listener)

    def onQueryStarted(self, event: Any) -> None:
        try:
            self._start(event)
        except Exception as error:
            _LOG.warning("no lineage for query %r: %s: %s", event.name, type(error).__name__, error)

    def onQueryProgress(self, event: Any) -> None:
        with self._access:
            found = self._tellers.get(str(event.progress.runId))
        if found is not None:
            progress = json.loads(event.progress.json)
            if "addBatch" in progress.get("durationMs", {}):
                found[0].add(progress)

    def onQueryIdle(self, event: Any) -> None:
        """A query that waits has nothing to tell."""

    def onQueryTerminated(self, event: Any) -> None:
        self._end(str(event.runId), event.exception)

    def stop(self) -> None:
        """At the end of the program: what is over is told of as such, the rest as stopped."""
        with self._access:
            left = dict(self._tellers)
        if left:
            # Spark tells of a query's last batch some time after it.
            with suppress(Exception):  # The JVM is gone.
                bus: Any = self._session.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
                bus.waitUntilEmpty(int(self._settings.lineage.close_seconds * 1000))
        for run_id, (_, query) in left.items():
            failure = None
            with suppress(Exception):
                found = query.exception()
                failure = str(found.get()) if found.isDefined() else None
            self._end(run_id, failure)

    def _start(self, event: Any) -> None:
        active = self._session.streams.get(str(event.id))
        if active is None:
            return
        java: Any = active._jsq  # noqa: SLF001
        query = java.streamingQuery()
        sink = query.sink()
        if str(sink.getClass().getName()).startswith("headwater."):
            return
        name = event.name or self.application
        if name in SELF_REPORTING_QUERIES or not self._settings.lineage_enabled_for(name):
            return
        emitter = emitter_of(self._settings)
        if emitter is None:
            return
        # Not through the session: this is called while Spark starts the query.
        found = describe_plan(query.analyzedPlan(), seconds=self._settings.lineage.analysis_seconds)
        lineage = QueryDescription(
            name,
            None,
            _checkpoint(query),
            None,
            list(self._outputs.get(name, ())) or _sink_datasets(query, sink),
            files_only=_writes_files(sink),
            job_facets=described(self.application),
        )
        self._begin(str(event.runId), lineage, emitter, found, java)

    def _begin(
        self, run_id: str, lineage: QueryDescription, emitter: Any, found: Description, query: Any
    ) -> None:
        schema_of = schemas_in(self._session)
        try:
            teller = StreamingRunReporter(
                lineage, run_id, self._settings, emitter, found, schema_of
            )
        except Exception:
            emitter.close()
            raise
        teller.start()
        with self._access:
            self._tellers[run_id] = teller, query

    def _end(self, run_id: str, failure: str | None) -> None:
        with self._access:
            found = self._tellers.pop(run_id, None)
        if found is None:
            return
        teller, query = found
        teller.end(failure, stopped=failure is None and not _is_done(query))


def _is_done(query: Any) -> bool:
    """Whether it has done what it was asked for, and was not stopped in the middle of it."""
    try:
        execution = query.streamingQuery()
        kind = str(execution.trigger().getClass().getName())
        if query.isActive() or not any(name in kind for name in _FINITE):
            return False
        # What was begun and not committed was cut off.
        return bool(execution.availableOffsets().equals(execution.committedOffsets()))
    except Exception:
        return False


def _checkpoint(query: Any) -> Path | str:
    location = str(query.resolvedCheckpointRoot())
    return Path(location.removeprefix("file:")) if location.startswith("file:") else location


def _sink_datasets(query: Any, sink: Any) -> list[Dataset]:
    """What a sink of Spark's own, of Delta or of Iceberg writes."""
    kind = _kind(sink)
    try:
        if kind == "KafkaTable":
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
    """Sinks that tell Spark of no rows."""
    return _kind(sink) == _DELTA_SINK or _FILE_SINK.match(str(sink)) is not None


def _kind(sink: Any) -> str:
    return str(sink.getClass().getSimpleName())


def _options(query: Any) -> dict[str, str]:
    """What the query was started with; Spark keeps it to itself."""
    field = query.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    options = field.get(query)
    found = {}
    for name in ("topic", "kafka.bootstrap.servers"):
        value = options.get(name)
        if value.isDefined():
            found[name] = str(value.get())
    return found
