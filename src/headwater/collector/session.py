"""A Spark session whose batch writes are reported to the catalog as one run of the application.

    with spark_session_with_lineage("MyJob") as spark:
        add_lineage_metadata(spark, job_type="batch", source_system="s3", target_system="iceberg")

The session has the OpenLineage listener. Its events go through Headwater's spool: a catalog that is
down or slow neither fails nor delays the job. The run ends with the block, and has its exception.
`create_spark_session_with_lineage` is the same without a block: its run ends with `finish_lineage`,
or with the session or the program, as far as their end can be observed without changing either.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from headwater import process
from headwater.collector.application_run import Application
from headwater.collector.configuration import (
    LISTENER,
    LineageConfiguration,
    lineage_configuration,
    lineage_options,
)
from headwater.collector.streaming import emitter_of
from headwater.model.progress import Progress, no_progress
from headwater.process import run_apart
from headwater.settings import Settings, load
from headwater.spark.configuration import OWN_LISTENER
from headwater.spark.session import create_session, running_session

CONNECTORS = ("kafka", "delta", "iceberg")

_LOG = logging.getLogger(__name__)

_STOP_SECONDS = 60.0

_current: Application | None = None
_access = threading.Lock()
# How the program ended, if a command has reported it.
_reported_error: BaseException | None = None
_at_exit_registered = False


@contextmanager
def spark_session_with_lineage(
    app_name: str,
    additional_configs: Mapping[str, str] | None = None,
    *,
    settings: Settings | None = None,
    connectors: Iterable[str] | None = None,
    progress: Progress = no_progress,
) -> Iterator[SparkSession]:
    """The session of `create_spark_session_with_lineage`, whose run ends with the block: COMPLETE,
    FAIL with the exception that leaves the block, or ABORT for KeyboardInterrupt and the exit
    codes of SIGINT and SIGTERM.

    Stops the session at the end if it has started it.
    """
    running = running_session() is not None
    spark = create_spark_session_with_lineage(
        app_name, additional_configs, settings=settings, connectors=connectors, progress=progress
    )
    application = current_application(spark)
    if application is not None:
        application.end_is_reported = True
    error: BaseException | None = None
    try:
        yield spark
    except BaseException as raised:
        error = raised
        raise
    finally:
        if application is not None:
            _forget(application)
            application.end(error)
        if not running:
            run_apart(spark.stop, _STOP_SECONDS)


def create_spark_session_with_lineage(
    app_name: str,
    additional_configs: Mapping[str, str] | None = None,
    *,
    settings: Settings | None = None,
    connectors: Iterable[str] | None = None,
    progress: Progress = no_progress,
) -> SparkSession:
    """A session whose writes are reported to the catalog as runs of the job `app_name`.

    Uses the running session: adds the listener if it is missing, and ends an open run. Nothing
    that the user has configured is changed. A job with disabled lineage (`lineage.enabled`,
    `lineage.disabled_jobs`) gets a session without listener, thread or file.

    Args:
        additional_configs: Spark configuration, which takes precedence. With another
            `spark.openlineage.transport.type` than `http` the listener sends its events itself.
        connectors: default: Kafka, Delta and Iceberg for a new session; none for a running one,
            which can't get any.

    Raises:
        NotInstalledError: under `spark-submit`, or in a running session, the listener is not on the
            class path.
    """
    settings = settings or load()
    _end_open_run(at_exit=False)
    running = running_session()
    default = CONNECTORS if running is None else ()
    names = tuple(default if connectors is None else connectors)
    # In a program of the user the session is the user's, also if it starts here.
    own = process.owns_process()
    if not settings.lineage_enabled_for(app_name):
        return create_session(
            app_name,
            settings,
            connectors=names,
            additional_configs=additional_configs,
            own=own,
            progress=progress,
        )
    existing = lineage_options(settings, running, _added)
    configuration = lineage_configuration(
        app_name, settings, {**existing, **(additional_configs or {})}
    )
    spark = create_session(
        app_name,
        settings,
        connectors=(*names, *(() if "openlineage" in names else ("openlineage",))),
        additional_configs=configuration.spark,
        own=own,
        progress=progress,
    )
    if running is not None:
        _attach(spark, configuration)
    _added.clear()
    _added.update(configuration.added)
    if configuration.through_spool:
        _begin(spark, app_name, configuration.settings)
    return spark


# Configuration that Headwater has added to the session, not the user.
_added: dict[str, str] = {}


def finish_lineage(error: BaseException | str | None = None) -> None:
    """End the open run of this process: COMPLETE, or FAIL with this error."""
    application = _forget()
    if application is not None:
        application.end(error)


def report_program_error(error: BaseException) -> None:
    """Report the error that ends the program, for a command that handles it."""
    global _reported_error
    _reported_error = error


def current_application(spark: SparkSession) -> Application | None:
    """The open run of this session."""
    application = _current
    if application is not None and application.spark.sparkContext is spark.sparkContext:
        return application
    return None


def _begin(spark: SparkSession, name: str, settings: Settings) -> None:
    global _current, _reported_error, _at_exit_registered
    emitter = emitter_of(settings)
    if emitter is None:
        return
    # An earlier failure does not belong to this run.
    _reported_error = None
    application = Application(spark, name, settings, emitter, _forget)
    with _access:
        _current = application
    if not _at_exit_registered:
        _at_exit_registered = True
        atexit.register(_end_open_run)
    process.exit_on_sigterm()


def _end_open_run(*, at_exit: bool = True) -> None:
    """End a run whose end is not reported."""
    application = _forget()
    if application is None:
        return
    if not at_exit:
        application.stop_counting()
    if _reported_error is not None:
        application.end(_reported_error)
    else:
        application.end_as_observed()


def _forget(application: Application | None = None) -> Application | None:
    """Remove the open run, or only this one, and return it."""
    global _current
    with _access:
        found = _current
        if application is not None and found is not application:
            return None
        _current = None
        return found


def _attach(spark: SparkSession, configuration: LineageConfiguration) -> None:
    """Add the listener to the bus: the configuration of a running session is fixed."""
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
    conf = context.getConf()
    for key, value in configuration.spark.items():
        if key.startswith("spark.openlineage."):
            conf.set(key, value)
    for key, value in configuration.added.items():
        if key.startswith("spark.openlineage."):
            spark.conf.set(key, value)
    if has_listener(spark):
        return
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        jvm.dev.headwater.lineage.LineageEventQueue.attach(
            context, conf, configuration.through_spool
        )
    except Exception as error:
        # Such as another OpenLineage jar on the class path. Lineage never fails a job.
        _LOG.warning("lineage of batch writes is disabled: %s", str(error)[:500])


def has_listener(spark: SparkSession) -> bool:
    """Whether the OpenLineage listener, or Headwater's extension of it, is registered."""
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
    listeners = bus.listeners()
    registered = (listeners.get(at).getClass().getName() for at in range(listeners.size()))
    return any(name in (LISTENER, OWN_LISTENER) for name in registered)
