"""A Spark session whose batch writes are reported to the catalog as one run of the application.

    spark = create_spark_session_with_lineage("MyJob")
    add_lineage_metadata(spark, job_type="batch", source_system="s3", target_system="iceberg")

The session has the OpenLineage listener. Its events go through Headwater's spool: a catalog that is
down or slow neither fails nor delays the job. The run ends with the session, with the program, or
with `finish_lineage`.
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
from headwater.collector.listener import track_streaming
from headwater.collector.relay import Relay
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.streaming import (
    LISTENER,
    LineageConfiguration,
    emitter_of,
    lineage_configuration,
    spark_submit_options,
)
from headwater.model.progress import Progress, no_progress
from headwater.openlineage import Emitter, LineageRun
from headwater.openlineage import facets as make
from headwater.openlineage.events import VERSION
from headwater.settings import Settings, load
from headwater.spark.measures.run_measures import RunMeasures
from headwater.spark.session import create_session, running_session

CONNECTORS = ("kafka", "delta", "iceberg")

_LOG = logging.getLogger(__name__)


class Application:
    """The run of an application, from the creation of its session to its end."""

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
        run.add_run_facet("processing_engine", make.processing_engine("spark", version, VERSION))
        self.lineage = ApplicationLineage(run, datetime.now(UTC))
        self._relay = Relay(spark, self._take)
        self._relay.start()
        self._measures = RunMeasures(run, (), None, settings)
        # Count the cost of this thread's work from now on.
        self._counting = ExitStack()
        self._counting.enter_context(self._measures.counting(queries=False))
        # Streaming queries are reported as separate runs.
        self._streams = track_streaming(spark, settings)
        if self._streams is not None:
            self._streams.application = name
        self._streaming = False
        self._queries_before = StreamingRunReporter.started
        self._ended = False

    @property
    def run(self) -> LineageRun:
        return self.lineage.run

    def is_streaming(self) -> None:
        """Mark the application as streaming: the runs of its queries report how they ended."""
        self._streaming = True
        interval = self.settings.lineage.interval_seconds
        self.run.add_job_facet("jobType", make.job_type("STREAMING", interval=interval))

    def _take(self, entry: Mapping[str, Any]) -> None:
        if entry.get("state") == "END" and "failure" not in entry:
            _clear_failure_before(entry["at"])
        self.lineage.take(entry)

    def end(self, error: BaseException | str | None) -> None:
        """Emit the last event and deliver events, both for a bounded time."""
        if self._ended:
            return
        self._ended = True
        self._relay.stop(self.settings.lineage.close_seconds)
        with suppress(Exception):  # The JVM may have exited.
            if self._streams is not None and not self.spark.streams.active:
                # `_relay.stop` has waited for Spark's events about ended queries.
                self.spark.streams.removeListener(self._streams)
                self._streams.stop()
        queries = StreamingRunReporter.started > self._queries_before
        if self._streaming and queries and not self.lineage.started:
            # The runs of the queries have reported it.
            error = None
        # Errors here must not affect the end of the job.
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
# The error or exit code that the program ended with, and when it was recorded.
_failure: BaseException | None = None
_failed_at = 0.0
_hooks_installed = False


def create_spark_session_with_lineage(
    app_name: str,
    additional_configs: Mapping[str, str] | None = None,
    *,
    settings: Settings | None = None,
    connectors: Iterable[str] = CONNECTORS,
    progress: Progress = no_progress,
) -> SparkSession:
    """A session whose writes are reported to the catalog as runs of the job `app_name`.

    Uses the active session, adds the listener if it is missing, and ends an open run. A job with
    disabled lineage (`lineage.enabled`, `lineage.disabled_jobs`) gets a session without listener,
    thread or file.

    Args:
        additional_configs: Spark configuration, which takes precedence. With another
            `spark.openlineage.transport.type` than `http` the listener sends its events itself.

    Raises:
        NotInstalledError: under `spark-submit` the listener is not on the class path.
    """
    settings = settings or load()
    configs = {**spark_submit_options(), **(additional_configs or {})}
    finish_lineage()
    names = tuple(connectors)
    if not settings.lineage_enabled_for(app_name):
        return create_session(
            app_name, settings, connectors=names, additional_configs=configs, progress=progress
        )
    configuration = lineage_configuration(app_name, settings, configs)
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
    """End the open run of this process: COMPLETE, or FAIL with this error."""
    global _current
    application, _current = _current, None
    if application is not None:
        application.end(error)


def current_application(spark: SparkSession) -> Application | None:
    """The open run of this session."""
    if _current is not None and _current.spark.sparkContext is spark.sparkContext:
        return _current
    return None


def _begin(spark: SparkSession, name: str, settings: Settings) -> None:
    global _current, _failure
    emitter = emitter_of(settings)
    if emitter is None:
        return
    # An earlier failure does not belong to this run.
    _failure = None
    _current = Application(spark, name, settings, emitter)
    _end_with(spark)


def _attach(spark: SparkSession, configuration: LineageConfiguration) -> None:
    """Add the listener to the bus: the configuration of a running session is fixed."""
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
        jvm.headwater.lineage.LineageEventQueue.attach(context, conf, configuration.through_spool)
    except Exception as error:
        # Such as another OpenLineage jar on the class path. Lineage never fails a job.
        _LOG.warning("lineage of batch writes is disabled: %s", str(error)[:500])


def has_listener(spark: SparkSession) -> bool:
    """Whether the OpenLineage listener is registered with Spark."""
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
    listeners = bus.listeners()
    return any(listeners.get(at).getClass().getName() == LISTENER for at in range(listeners.size()))


def _end_with(spark: SparkSession) -> None:
    """End the run before its session, and at the latest with the program."""
    _install_exit_hooks()
    stop = spark.stop
    if getattr(stop, "ends_the_run", False):
        return

    def stop_with_lineage() -> None:
        if current_application(spark) is not None:
            # In a `finally` or at the end of a `with`: the exception that is being raised.
            finish_lineage(sys.exc_info()[1])
        stop()

    stop_with_lineage.ends_the_run = True  # type: ignore[attr-defined]
    spark.stop = stop_with_lineage  # type: ignore[method-assign]


def _install_exit_hooks() -> None:
    """Report the program's last error or exit code as that of the run.

    SIGTERM raises SystemExit, unless the program has its own handler.
    """
    global _hooks_installed
    if _hooks_installed:
        return
    _hooks_installed = True
    previous_hook = sys.excepthook

    def record(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _record_failure(error)
        previous_hook(kind, error, trace)

    def terminated(number: int, frame: FrameType | None) -> None:
        # Python calls no hook for SystemExit.
        error = SystemExit(128 + number)
        _record_failure(error)
        raise error

    sys.excepthook = record
    sys.exit = _recording(sys.exit)
    # Scripts use these too; in an interactive session Python's own have a help text.
    for name in ("exit", "quit"):
        if hasattr(builtins, name) and not hasattr(sys, "ps1"):
            setattr(builtins, name, _recording(getattr(builtins, name)))
    atexit.register(lambda: finish_lineage(_failure))
    on_main_thread = threading.current_thread() is threading.main_thread()
    if on_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminated)


def _recording(exit_function: Callable[[Any], NoReturn]) -> Callable[..., NoReturn]:
    """Wrap an exit function: Python calls no hook for its exception."""

    def exit_with(status: Any = None, /) -> NoReturn:
        # In another thread it ends only that thread.
        if threading.current_thread() is threading.main_thread():
            _record_failure(SystemExit(status))
        exit_function(status)

    return exit_with


def _record_failure(error: BaseException) -> None:
    global _failure, _failed_at
    _failure, _failed_at = error, time.time()


def _clear_failure_before(millis: int) -> None:
    """Later work succeeded: the error was caught, or an interactive session continued."""
    global _failure
    if _failure is not None and millis > _failed_at * 1000:
        _failure = None
