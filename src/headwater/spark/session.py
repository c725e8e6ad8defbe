"""Creates the Spark session: connectors, pinned versions, and jars from the cache.

What the user has set, in any of the ways that Spark knows, is never changed: configuration is added
where nothing is set, and lists are joined. A session that already runs keeps all its settings.

Under `spark-submit` the JVM is already running with the user's class path and settings, and a
missing connector raises an error at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaClass
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from headwater import process
from headwater.errors import InputError, NotInstalledError
from headwater.jvm import jars as cds
from headwater.jvm.installed import find_java, java_home_for_spark, line_for
from headwater.jvm.jars import session_jars
from headwater.model.local_files import state_folder
from headwater.model.progress import Progress, no_progress
from headwater.settings import (
    Settings,
    class_path_of_spark,
    exported,
    running_under_spark_submit,
)
from headwater.settings.sections import SparkSettings
from headwater.spark.configuration import (
    CONNECTORS,
    LISTS,
    connectors_for,
    is_connect_client,
    java_options_of_spark,
    python_of_spark,
    session_configuration,
    spark_arguments_configuration,
    spark_files_configuration,
    without_conflicts,
)

# A start changes environment variables, which belong to the process.
_start_lock = threading.Lock()
_LOGGING = Path(__file__).with_name("log4j2.properties")

_JARS_HINT = (
    'start Spark with the jars that `headwater jars path` prints: spark-submit --jars "$(headwater '
    'jars path)" …, or SparkSession.builder.config("spark.jars", …)'
)

# Defaults of sessions that Headwater creates for itself.
_OWN_DEFAULTS = {"spark.sql.session.timeZone": "UTC"}
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def create_session(
    app_name: str,
    settings: Settings,
    *,
    connectors: Iterable[str] = ("kafka",),
    additional_configs: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    own: bool = True,
    progress: Progress = no_progress,
) -> SparkSession:
    """Create a session with these connectors, or use the running one.

    Downloads missing jars, which may take a minute the first time.

    Args:
        additional_configs: configuration that the caller wants, whatever else is set; lists are
            joined. In a running session, as with `SparkSession.builder`: what can be changed.
        defaults: further configuration where the user has set nothing.
        own: add Headwater's defaults, such as UTC as time zone. Without, a new session has the
            user's configuration, the jars and the connectors, nothing else.

    Raises:
        InputError: this process is a client of Spark Connect.
        UnsupportedVersionError: this pyspark does not fit the pinned connectors.
        NotInstalledError: there is no Java, or a connector is missing under `spark-submit`.
        DownloadError: a jar can't be downloaded.
    """
    line_for(pyspark.__version__)
    names = connectors_for(connectors, settings)
    wanted = dict(additional_configs or {})
    added = {
        **(_OWN_DEFAULTS if own else {}),
        **(defaults or {}),
        **session_configuration(names, settings),
    }
    with _start_lock:
        existing = running_session()
        if existing is not None:
            spark = existing
            for key, value in wanted.items():
                if spark.conf.isModifiable(key):
                    spark.conf.set(key, value)
        elif is_connect_client():
            raise _connect_error("this process")
        elif running_under_spark_submit():
            configuration = _completed(wanted, added, user_configuration(settings))
            spark = _builder(app_name, configuration).getOrCreate()
        else:
            spark = _start(app_name, settings, names, wanted, added, own=own, progress=progress)
    # Such as with `spark.api.mode=connect`, by which Spark's builder starts a server.
    refuse_connect(spark)
    _check_connectors(spark, names)
    return spark


def check_session(
    spark: SparkSession, connectors: Iterable[str], settings: Settings
) -> SparkSession:
    """The user's own session, if it has these connectors and Headwater's jar.

    Raises:
        InputError: it is a session of Spark Connect.
        UnsupportedVersionError: this pyspark does not fit the pinned connectors.
        NotInstalledError: a connector is not on the class path.
    """
    refuse_connect(spark)
    line_for(pyspark.__version__)
    _check_connectors(spark, connectors_for(connectors, settings))
    return spark


def session_for(
    app_name: str,
    own: SparkSession | None,
    connectors: Iterable[str],
    settings: Settings,
    defaults: Mapping[str, str],
    progress: Progress,
) -> SparkSession:
    """The user's own session, checked, or one that is created."""
    if own is not None:
        return check_session(own, connectors, settings)
    return create_session(
        app_name, settings, connectors=connectors, defaults=defaults, progress=progress
    )


def refuse_connect(given: Any) -> None:
    """Refuse a session, DataFrame or column of Spark Connect: its JVM is that of the server.

    Raises:
        InputError: it is one.
    """
    if type(given).__module__.startswith("pyspark.sql.connect."):
        raise _connect_error(f"this {type(given).__name__}")


def _connect_error(what: str) -> InputError:
    return InputError(
        f"{what} belongs to Spark Connect, and Headwater's Python API needs the JVM of Spark's "
        "driver in its own process",
        hint="start the job with spark-submit, or configure row lineage on the Connect server: "
        "docs/concepts/row-lineage.md#spark-connect",
    )


def user_configuration(settings: Settings) -> dict[str, str]:
    """What the user has configured for a session that does not run yet."""
    if running_under_spark_submit():
        # `--conf` and files are properties of the JVM: Python has to connect to it first.
        SparkContext._ensure_initialized()  # noqa: SLF001
        return dict(SparkConf().getAll())
    files = spark_files_configuration(Path(_find_spark_home()))
    return {**files, **_from_settings(settings), **spark_arguments_configuration()}


def _from_settings(settings: Settings) -> dict[str, str]:
    """Configuration from Headwater's settings that are not the default."""
    standard, chosen = SparkSettings(), settings.spark
    pairs = {
        "spark.master": (chosen.master, standard.master),
        "spark.driver.memory": (chosen.driver_memory, standard.driver_memory),
    }
    return {key: value for key, (value, default) in pairs.items() if value != default}


def _completed(
    wanted: Mapping[str, str], added: Mapping[str, str], user: Mapping[str, str]
) -> dict[str, str]:
    """The configuration of a new session: what the caller wants, and what is not set."""
    lists = {key: value for key, value in wanted.items() if key in LISTS}
    others = {key: value for key, value in wanted.items() if key not in LISTS}
    joined = without_conflicts(lists, user)
    return {**others, **joined, **without_conflicts(added, {**user, **others, **joined})}


def running_session() -> SparkSession | None:
    """The session that Python has started, or None.

    Not Spark's active session: that differs between threads, and is the cloned session of a query
    after a `foreachBatch` that created a DataFrame.
    """
    running = SparkContext._active_spark_context is not None  # noqa: SLF001
    return SparkSession.builder.getOrCreate() if running else None


def _make_warehouse(connectors: tuple[str, ...], settings: Settings) -> None:
    """Make the default warehouse before Spark does, so that it is private and marked."""
    iceberg = settings.iceberg
    if "iceberg" in connectors and iceberg.type == "hadoop" and iceberg.warehouse is None:
        with suppress(OSError):  # for a session that does not write to it
            state_folder(settings.home_dir, "warehouse")


def _start(
    app_name: str,
    settings: Settings,
    connectors: tuple[str, ...],
    wanted: Mapping[str, str],
    added: Mapping[str, str],
    *,
    own: bool,
    progress: Progress,
) -> SparkSession:
    _make_warehouse(connectors, settings)
    jars = [str(path) for path in session_jars(connectors, settings, progress)]
    java = find_java(settings)
    options = [cds.cds_use_options(java, settings), settings.spark.java_options]
    user = user_configuration(settings)
    # Spark itself does not know Headwater's settings.
    chosen = {k: v for k, v in _from_settings(settings).items() if user[k] == v}
    wanted = {**chosen, **wanted}
    placement = _placement({**user, **wanted}.get("spark.master", settings.spark.master), jars)
    if own:
        options += [
            f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            f"-Dheadwater.log.level={settings.spark.log_level.lower()}",
        ]
        memory = {"spark.driver.memory": settings.spark.driver_memory}
        added = {**memory, **_QUIET, **placement, **added}
    else:
        # Executors need the jars. Without a master, Spark's own default is the same.
        added = {**{key: value for key, value in placement.items() if key in LISTS}, **added}
    environment = {
        "JAVA_HOME": str(java_home_for_spark(java, settings)),
        "PYSPARK_PYTHON": python_of_spark(sys.executable),
        # After Spark's own jars: before them, the CDS archive would not be valid.
        "SPARK_DIST_CLASSPATH": class_path_of_spark(jars),
        # Not `spark.driver.extraJavaOptions`, which is the user's.
        "SPARK_SUBMIT_OPTS": java_options_of_spark(" ".join(options)),
    }
    # Ignored by the JVM, too, which inherits it: a signal to the process group would stop it in
    # the middle of a micro-batch, before Python can complete it.
    with exported(**environment), process.handled(signal.SIG_IGN):
        return _builder(app_name, _completed(wanted, added, user)).getOrCreate()


# For a local master.
LOCAL_CONFIGURATION = {
    # With few cores, Delta's default of 50 snapshot partitions makes commits four times slower.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Hadoop starts a process for each file it creates; this file system does not. Checkpoints
    # need their own setting, as Spark does not write them with Hadoop's file systems.
    "spark.hadoop.fs.file.impl": "dev.headwater.spark.LocalFiles",
    "spark.sql.streaming.checkpointFileManagerClass": "dev.headwater.spark.CheckpointFiles",
}


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
                hint=_JARS_HINT,
                connector=name,
            ) from None


def own_class(name: str) -> Any:
    """A class of Headwater's jar, such as `quality.Attempt`.

    Raises:
        NotInstalledError: it is not on Spark's class path.
    """
    java_class = getattr(SparkContext._jvm, f"dev.headwater.{name}")  # noqa: SLF001
    if not isinstance(java_class, JavaClass):
        # py4j treats an unknown class as a package.
        raise NotInstalledError(
            "Headwater's jar is not on Spark's class path",
            hint=_JARS_HINT,
        )
    return java_class
