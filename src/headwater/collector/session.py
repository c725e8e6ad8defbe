"""A Spark session whose batch writes are told to the catalog, as one run of the application.

    spark = create_spark_session_with_lineage("MyJob")
    add_lineage_metadata(spark, job_type="batch", source_system="s3", target_system="iceberg")

The session has the OpenLineage listener and its configuration. What the listener says goes through
Headwater and its spool: a catalog that is down, slow or wrong neither fails nor holds up the job.
The run ends with the session, with the program, or with `finish_lineage`.
"""

from __future__ import annotations

import atexit
import builtins
import logging
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import Any, NoReturn

import pyspark
from pyspark.sql import SparkSession

from headwater.collector.application import ApplicationLineage
from headwater.collector.configuration import (
    LISTENER,
    LineageConfiguration,
    lineage_configuration,
    submitted,
)
from headwater.collector.listener import track_streaming
from headwater.collector.measures import Measures
from headwater.collector.relay import Relay
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.streaming import emitter_of
from headwater.model.progress import Progress, no_progress
from headwater.openlineage import Emitter, LineageRun
from headwater.openlineage import facets as make
from headwater.settings import Settings, load
from headwater.spark.session import create_session, running_session

CONNECTORS = ("kafka", "delta", "iceberg")

_LOG = logging.getLogger(__name__)


class Application:
    """One run of an application, from its session to its end."""

    def __init__(
        self, spark: SparkSession, name: str, settings: Settings, emitter: Emitter
    ) -> None:
        self.spark = spark
        self.name = name
        self.settings = settings
        self._emitter = emitter
        run = LineageRun.from_settings(settings, self._emitter.emit, name, str(uuid.uuid4()))
        run.add_job_facet("jobType", make.job_type("BATCH"))
        version = pyspark.__version__
        run.add_run_facet(
            "processing_engine", make.processing_engine("spark", version, "headwater")
        )
        self.lineage = ApplicationLineage(run, datetime.now(UTC))
        self._relay = Relay(spark, self._take)
        self._relay.start()
        self._measures = Measures(run, (), None, settings)
        # What this thread does from now on counts.
        self._counting = ExitStack()
        self._counting.enter_context(self._measures.counting(queries=False))
        # Streaming queries are told of, too, each as a run of its own.
        self._streams = track_streaming(spark, settings)
        if self._streams is not None:
            self._streams.application = name
        self._streaming = False
        self._queries_before = StreamingRunReporter.begun
        self._ended = False

    @property
    def run(self) -> LineageRun:
        return self.lineage.run

    def is_streaming(self) -> None:
        """What it does is done by queries, whose runs tell how they ended."""
        self._streaming = True
        interval = self.settings.lineage.interval_seconds
        self.run.add_job_facet("jobType", make.job_type("STREAMING", interval=interval))

    def _take(self, told: Mapping[str, Any]) -> None:
        if told.get("state") == "END" and "failure" not in told:
            _forget_failure_before(told["at"])
        self.lineage.take(told)

    def end(self, error: BaseException | str | None) -> None:
        """Tell the end and deliver what can be delivered; both bounded."""
        if self._ended:
            return
        self._ended = True
        self._relay.stop(self.settings.lineage.close_seconds)
        with suppress(Exception):  # The JVM may be gone.
            if self._streams is not None and not self.spark.streams.active:
                # Spark tells of the end of a query some time after it: that was waited for.
                self.spark.streams.removeListener(self._streams)
                self._streams.stop()
        queries = StreamingRunReporter.begun > self._queries_before
        if self._streaming and queries and not self.lineage.started:
            # Their runs have told it.
            error = None
        # Whatever goes wrong here, the job's own end goes on.
        for step in (
            lambda: self._measures.end(error),
            lambda: self.lineage.finish(error),
            self._counting.close,
            self._emitter.close,
        ):
            try:
                step()
            except Exception as trouble:
                _LOG.warning("the lineage of this run is incomplete: %s", type(trouble).__name__)


_current: Application | None = None
# What the program ended with, if that is its end, and when that was seen.
_failure: BaseException | None = None
_failed_at = 0.0
_watching = False


def create_spark_session_with_lineage(
    app_name: str,
    additional_configs: Mapping[str, str] | None = None,
    *,
    settings: Settings | None = None,
    connectors: Iterable[str] = CONNECTORS,
    progress: Progress = no_progress,
) -> SparkSession:
    """A session whose writes are told to the catalog as runs of the job `app_name`.

    An active session is used, and gets the listener if it has none; a run that was open in it
    ends. A job that the settings switch off (`lineage.enabled`, `lineage.disabled_jobs`) gets a
    session without listener, thread or file.

    Args:
        additional_configs: Spark's configuration; it wins over all that is set here. With
            `spark.openlineage.transport.type` other than `http` the listener sends its events
            there by itself.

    Raises:
        MissingPartError: under `spark-submit` the listener is not on the class path.
    """
    settings = settings or load()
    given = {**submitted(), **(additional_configs or {})}
    finish_lineage()
    names = tuple(connectors)
    if not settings.lineage_enabled_for(app_name):
        return create_session(
            app_name, settings, connectors=names, additional_configs=given, progress=progress
        )
    configuration = lineage_configuration(app_name, settings, given)
    running = running_session() is not None
    spark = create_session(
        app_name,
        settings,
        connectors=(*names, *(() if "openlineage" in names else ("openlineage",))),
        additional_configs=configuration.spark,
        progress=progress,
    )
    if running:
        _attach(spark, configuration)
    if configuration.through_spool:
        _begin(spark, app_name, configuration.settings)
    return spark


def finish_lineage(error: BaseException | str | None = None) -> None:
    """End the run that is open in this process: completed, or failed with this error."""
    global _current
    application, _current = _current, None
    if application is not None:
        application.end(error)


def current_application(spark: SparkSession) -> Application | None:
    """The run that is open in this session."""
    if _current is not None and _current.spark.sparkContext is spark.sparkContext:
        return _current
    return None


def _begin(spark: SparkSession, name: str, settings: Settings) -> None:
    global _current, _failure
    emitter = emitter_of(settings)
    if emitter is None:
        return
    # Whatever went wrong before is not this run's.
    _failure = None
    _current = Application(spark, name, settings, emitter)
    _end_with(spark)


def _attach(spark: SparkSession, configuration: LineageConfiguration) -> None:
    """A running session's configuration is fixed: its listener is added to the bus itself."""
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
    conf = context.getConf()
    for key, value in configuration.spark.items():
        if key.startswith("spark.openlineage."):
            conf.set(key, value)
            spark.conf.set(key, value)
    if has_listener(spark):
        return
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        jvm.headwater.lineage.Handover.attach(context, conf, configuration.through_spool)
    except Exception as error:
        # Such as another OpenLineage jar on the class path. A job does not fail for its lineage.
        _LOG.warning("no lineage of batch writes: %s", str(error)[:500])


def has_listener(spark: SparkSession) -> bool:
    """Whether the OpenLineage listener is among those that Spark tells of its queries."""
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
    listeners = bus.listeners()
    return any(listeners.get(at).getClass().getName() == LISTENER for at in range(listeners.size()))


def _end_with(spark: SparkSession) -> None:
    """The run ends before its session does, and at the latest with the program."""
    _watch_the_program()
    stop = spark.stop
    if getattr(stop, "ends_the_run", False):
        return

    def stop_with_lineage() -> None:
        if current_application(spark) is not None:
            # In a `finally` or at the end of a `with` this is what is on its way out.
            finish_lineage(sys.exc_info()[1])
        stop()

    stop_with_lineage.ends_the_run = True  # type: ignore[attr-defined]
    spark.stop = stop_with_lineage  # type: ignore[method-assign]


def _watch_the_program() -> None:
    """Its last error, or exit code, is the run's; SIGTERM lets it end in order, where nobody else
    has a say."""
    global _watching
    if _watching:
        return
    _watching = True
    known = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _note_failure(error)
        known(kind, error, trace)

    def terminated(number: int, frame: FrameType | None) -> None:
        # Python says nothing of how it was left by this one.
        error = SystemExit(128 + number)
        _note_failure(error)
        raise error

    sys.excepthook = note
    sys.exit = _noting(sys.exit)
    # Scripts use these, too; a person who types them is told more by Python's own.
    for name in ("exit", "quit"):
        if hasattr(builtins, name) and not hasattr(sys, "ps1"):
            setattr(builtins, name, _noting(getattr(builtins, name)))
    atexit.register(lambda: finish_lineage(_failure))
    on_main_thread = threading.current_thread() is threading.main_thread()
    if on_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminated)


def _noting(leave: Callable[[Any], NoReturn]) -> Callable[..., NoReturn]:
    """The same way to leave a program, whose exception Python shows to no hook."""

    def exit_with(status: Any = None, /) -> NoReturn:
        # In another thread it ends that one only.
        if threading.current_thread() is threading.main_thread():
            _note_failure(SystemExit(status))
        leave(status)

    return exit_with


def _note_failure(error: BaseException) -> None:
    global _failure, _failed_at
    _failure, _failed_at = error, time.time()


def _forget_failure_before(millis: int) -> None:
    """The program did work afterwards: a person went on behind an error, or it was caught."""
    global _failure
    if _failure is not None and millis > _failed_at * 1000:
        _failure = None
