"""Creates the Spark session: connectors, pinned versions, and jars from the cache.

Under `spark-submit` the JVM is already running with the user's class path and settings: only
runtime settings are applied, and a missing connector raises an error at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import InputError, NotInstalledError
from headwater.jvm import jars as cds
from headwater.jvm.jars import check_spark_version, session_jars
from headwater.jvm.java import find_java, java_home_for_spark
from headwater.jvm.versions import CONNECTORS as CONNECTOR_NAMES
from headwater.model.local_files import file_uri
from headwater.model.progress import Progress, no_progress
from headwater.settings import (
    Settings,
    class_path_of_spark,
    exported,
    running_under_spark_submit,
)

# A start changes environment variables, which belong to the process.
_start_lock = threading.Lock()
_LOGGING = Path(__file__).with_name("log4j2.properties")


def create_session(
    app_name: str,
    settings: Settings,
    *,
    connectors: Iterable[str] = ("kafka",),
    additional_configs: Mapping[str, str] | None = None,
    progress: Progress = no_progress,
) -> SparkSession:
    """Create a session with these connectors, or configure the running one.

    Downloads missing jars, which may take a minute the first time.

    Raises:
        UnsupportedVersionError: this pyspark does not fit the pinned connectors.
        NotInstalledError: there is no Java, or a connector is missing under `spark-submit`.
        DownloadError: a jar can't be downloaded.
    """
    check_spark_version(pyspark.__version__)
    names = connectors_for(connectors, settings)
    configuration = {
        # Timestamps are written in UTC, independent of the driver's time zone.
        "spark.sql.session.timeZone": "UTC",
        # Stopping a query waits for its thread, by default indefinitely.
        "spark.sql.streaming.stopTimeout": "30s",
        **session_configuration(names, settings),
        **(additional_configs or {}),
    }
    with _start_lock:
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
    """The session that Python has started, or None.

    Not Spark's active session: that differs between threads, and is the cloned session of a query
    after a `foreachBatch` that created a DataFrame.
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
        cds.cds_use_options(java, settings),
        settings.spark.java_options,
    )
    start_configuration = {
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
        # After Spark's own jars: before them, the CDS archive would not be valid.
        "SPARK_DIST_CLASSPATH": class_path_of_spark(jars),
    }
    with (
        exported(**environment),
        _jvm_ignores_signals(),
    ):
        return _builder(app_name, start_configuration).getOrCreate()


def _placement(master: str, jars: list[str]) -> dict[str, str]:
    """Configuration that depends on the master."""
    # local-cluster[…] has separate executors, like a real cluster.
    if master.partition("[")[0] != "local":
        # Executors get the jars from the driver.
        return {"spark.master": master, "spark.jars": ",".join(jars)}
    return {
        "spark.master": master,
        # Loopback, because the driver's address changes when a laptop changes networks.
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
    # Spark reports a missing data source only when it is used.
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
def _jvm_ignores_signals() -> Iterator[None]:
    """Ignore SIGTERM and SIGINT while the JVM starts, which inherits that.

    A signal to the process group would otherwise stop the JVM in the middle of a micro-batch,
    before Python can complete it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    for name in previous:
        signal.signal(name, signal.SIG_IGN)
    try:
        yield
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)


@dataclass(frozen=True)
class Connector:
    """Classes that must be on the class path, and the configuration of the connector."""

    probes: tuple[str, ...]
    extension: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


# Part of the Kafka connector.
OWN_SINK = "headwater.delivery.LineageSink"
# Part of the OpenLineage connector: sends the listener's events.
LINEAGE_PLUGIN = "headwater.lineage.LineagePlugin"

CONNECTORS: Mapping[str, Connector] = {
    "kafka": Connector(("org.apache.spark.sql.kafka010.KafkaSourceProvider", OWN_SINK)),
    "delta": Connector(
        ("io.delta.sql.DeltaSparkSessionExtension",),
        "io.delta.sql.DeltaSparkSessionExtension",
        {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    ),
    "iceberg": Connector(
        ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",),
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
    # The JDBC driver of an Iceberg catalog in PostgreSQL.
    "postgresql": Connector(("org.postgresql.Driver",)),
    "openlineage": Connector(
        ("io.openlineage.spark.agent.OpenLineageSparkListener", LINEAGE_PLUGIN),
        configuration={
            # With its metrics reporter the listener throws and loses foreachBatch events.
            "spark.openlineage.vendors.iceberg.metricsReporterDisabled": "true"
        },
    ),
}

# For a local master.
LOCAL_CONFIGURATION = {
    # With few cores, Delta's default of 50 snapshot partitions makes commits four times slower.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Hadoop starts a process for each file it creates; this file system does not. Checkpoints
    # need their own setting, as Spark does not write them with Hadoop's file systems.
    "spark.hadoop.fs.file.impl": "headwater.spark.LocalFiles",
    "spark.sql.streaming.checkpointFileManagerClass": "headwater.spark.CheckpointFiles",
}


def session_configuration(names: Iterable[str], settings: Settings) -> dict[str, str]:
    """Extensions and catalogs of these connectors.

    Raises:
        InputError: an unknown connector.
    """
    names = tuple(names)
    chosen = [_connector(name) for name in names]
    configuration: dict[str, str] = {}
    for connector in chosen:
        configuration.update(connector.configuration)
    extensions = [connector.extension for connector in chosen if connector.extension]
    if extensions:
        configuration["spark.sql.extensions"] = ",".join(extensions)
    if "iceberg" in names:
        configuration.update(_iceberg_catalog(settings))
    return configuration


def connectors_for(names: Iterable[str], settings: Settings) -> tuple[str, ...]:
    """The connectors and those that the settings require: the JDBC driver of the catalog."""
    names = tuple(names)
    uri = settings.iceberg.uri or ""
    if "iceberg" in names and uri.startswith("jdbc:postgresql:"):
        return (*names, "postgresql")
    return names


def _iceberg_catalog(settings: Settings) -> dict[str, str]:
    """The Iceberg catalog under its SQL name."""
    iceberg = settings.iceberg
    catalog = f"spark.sql.catalog.{iceberg.catalog}"
    configuration = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": iceberg.type,
        # A streaming query writes in a cloned session; a cache would hide that from others.
        f"{catalog}.cache-enabled": "false",
    }
    if iceberg.uri is not None:
        configuration[f"{catalog}.uri"] = iceberg.uri
    warehouse = _warehouse(settings)
    if warehouse is not None:
        configuration[f"{catalog}.warehouse"] = warehouse
    return configuration | {f"{catalog}.{key}": value for key, value in iceberg.options.items()}


def _warehouse(settings: Settings) -> str | None:
    warehouse = settings.iceberg.warehouse
    if settings.iceberg.type == "rest":
        # A name that the REST catalog resolves.
        return warehouse
    if warehouse is not None and "://" in warehouse:
        return warehouse
    folder = Path(warehouse) if warehouse else settings.home_dir / "warehouse"
    return file_uri(folder.expanduser())


def _connector(name: str) -> Connector:
    if name not in CONNECTORS:
        raise InputError(
            f"unknown connector: {name!r}", hint=f"known: {', '.join(CONNECTOR_NAMES)}"
        )
    return CONNECTORS[name]


@contextmanager
def configured(spark: SparkSession, configuration: Mapping[str, str]) -> Iterator[None]:
    """Set configuration for the body and restore it, as the session belongs to the user. A query
    that is started in the body keeps the configuration."""
    previous: dict[str, str | None] = {name: spark.conf.get(name, None) for name in configuration}
    for name, value in configuration.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in previous.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
