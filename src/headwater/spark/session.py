"""The Spark session: pinned versions, jars from the cache, a start in seconds.

Under `spark-submit` the JVM runs already, with the user's class path and settings: then only
what can still be set is set, and a connector that is missing there is told of at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import NotInstalledError
from headwater.jvm import cds as class_archive
from headwater.jvm.java import find_java, java_home_for_spark
from headwater.jvm.own_jar import session_jars
from headwater.jvm.versions import check_spark_version
from headwater.model.progress import Progress, no_progress
from headwater.settings import (
    Settings,
    class_path_of_spark,
    exported,
    running_under_spark_submit,
)
from headwater.spark.connectors import (
    CONNECTORS,
    LOCAL_CONFIGURATION,
    connectors_for,
    session_configuration,
)

# The environment that a start hands to Java belongs to the whole process.
_one_at_a_time = threading.Lock()
_LOGGING = Path(__file__).with_name("log4j2.properties")


def create_session(
    app_name: str,
    settings: Settings,
    *,
    connectors: Iterable[str] = ("kafka",),
    additional_configs: Mapping[str, str] | None = None,
    progress: Progress = no_progress,
) -> SparkSession:
    """A session with the connectors ready to use; the active one, if there is one.

    Fetches missing jars first, which may take a minute the first time.

    Raises:
        UnsupportedVersionError: this pyspark was not run with the pinned connectors.
        MissingPartError: no Java, or, under `spark-submit`, a connector is not on its class path.
        DownloadError: a jar can't be had.
    """
    check_spark_version(pyspark.__version__)
    names = connectors_for(connectors, settings)
    configuration = {
        # Times are written in UTC, wherever the driver runs.
        "spark.sql.session.timeZone": "UTC",
        # Stopping a query waits for its thread, by default for ever.
        "spark.sql.streaming.stopTimeout": "30s",
        **session_configuration(names, settings),
        **(additional_configs or {}),
    }
    with _one_at_a_time:
        existing = running_session()
        if existing is not None:
            spark = existing
            for key, value in configuration.items():
                if spark.conf.isModifiable(key):
                    spark.conf.set(key, value)
        elif running_under_spark_submit():
            spark = _builder(app_name, configuration).getOrCreate()
        else:
            spark = _start(app_name, settings, names, configuration, progress)
    _check_connectors(spark, names)
    return spark


def running_session() -> SparkSession | None:
    """The one that Python has started.

    Spark's active session is another in other threads, and a `foreachBatch` that makes a frame
    leaves the copy that belongs to its query behind as active.
    """
    running = SparkContext._active_spark_context is not None  # noqa: SLF001
    return SparkSession.builder.getOrCreate() if running else None


def _start(
    app_name: str,
    settings: Settings,
    connectors: tuple[str, ...],
    configuration: Mapping[str, str],
    progress: Progress,
) -> SparkSession:
    jars = [str(path) for path in session_jars(connectors, settings, progress)]
    java = find_java(settings)
    options = (
        f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        f"-Dheadwater.log.level={settings.spark.log_level.lower()}",
        class_archive.use_options(java, settings),
        settings.spark.java_options,
    )
    given = {
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_placement(configuration.get("spark.master", settings.spark.master), jars),
        **configuration,
    }
    environment = {
        "JAVA_HOME": str(java_home_for_spark(java, settings)),
        "PYSPARK_PYTHON": sys.executable,
        # In front of Spark's own jars, no archive of its classes would fit.
        "SPARK_DIST_CLASSPATH": class_path_of_spark(jars),
    }
    with (
        exported(**environment),
        _signals_kept_from_the_jvm(),
    ):
        return _builder(app_name, given).getOrCreate()


def _placement(master: str, jars: list[str]) -> dict[str, str]:
    """What is set for where it runs."""
    # local-cluster[…] has executors of its own, as a real cluster has.
    if master.partition("[")[0] != "local":
        # They get the jars from the driver.
        return {"spark.master": master, "spark.jars": ",".join(jars)}
    return {
        "spark.master": master,
        # Loopback: a laptop that changes networks would otherwise lose its own driver.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **LOCAL_CONFIGURATION,
    }


def _builder(app_name: str, configuration: Mapping[str, str]) -> SparkSession.Builder:
    builder: SparkSession.Builder = SparkSession.builder.appName(app_name)
    for key, value in configuration.items():
        builder = builder.config(key, value)
    return builder


def _check_connectors(spark: SparkSession, names: Iterable[str]) -> None:
    # Spark tells of a missing data source only when it is used.
    jvm: Any = spark._jvm  # noqa: SLF001
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in names:
        try:
            for probe in CONNECTORS[name].probes:
                loader.loadClass(probe)
        except Exception:
            raise NotInstalledError(
                f"the connector {name!r} is not on Spark's class path",
                hint='spark-submit --jars "$(headwater jars path)" …',
                connector=name,
            ) from None


@contextmanager
def _signals_kept_from_the_jvm() -> Iterator[None]:
    """Start the JVM with SIGTERM and SIGINT ignored, which it inherits.

    A signal to the whole process group would otherwise end the JVM in the middle of a
    micro-batch, before Python can finish it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    for name in kept:
        signal.signal(name, signal.SIG_IGN)
    try:
        yield
    finally:
        for name, handler in kept.items():
            signal.signal(name, handler)
