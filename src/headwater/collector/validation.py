"""Does the lineage of a batch job arrive? Checks that fail loudly, in the order of the needs."""

from __future__ import annotations

import tempfile
import zipfile

from pyspark.sql import SparkSession

from headwater.collector.configuration import LISTENER
from headwater.collector.session import (
    create_spark_session_with_lineage,
    current_application,
    finish_lineage,
    has_listener,
)
from headwater.errors import CheckFailedError
from headwater.jvm.jars import locked_jars, missing_jars
from headwater.model import CHECKS_NAMESPACE
from headwater.openlineage.transport import CatalogClient
from headwater.openlineage.validation import SWITCHED_OFF, ask, ask_for_run
from headwater.settings import Settings

_JOB = "lineage_of_a_write_arrives"


def check_listener_jar(settings: Settings) -> str:
    """The listener's jar is in the cache, and the listener in it.

    Raises:
        CheckFailedError: it is not.
    """
    fetch = "`headwater jars fetch openlineage`; a job with lineage does that by itself"
    missing = missing_jars("openlineage", settings)
    if missing:
        raise CheckFailedError(f"{missing[0].coordinate} is not in the cache", hint=fetch)
    wanted = LISTENER.replace(".", "/") + ".class"
    for jar in locked_jars("openlineage"):
        with zipfile.ZipFile(settings.jars_dir / jar.file_name) as archive:
            if wanted in archive.namelist():
                return f"{LISTENER} is in {jar.file_name}"
    raise CheckFailedError(f"no pinned jar holds {LISTENER}", hint="`headwater jars verify`")


def check_listener_loaded(spark: SparkSession) -> str:
    """The listener is among those that Spark tells of its queries.

    Raises:
        CheckFailedError: it is not.
    """
    if not has_listener(spark):
        raise CheckFailedError(
            f"the session has no {LISTENER}",
            hint="make it with `create_spark_session_with_lineage`; under spark-submit the jar has "
            'to be there: --jars "$(headwater jars path)"',
        )
    return f"{LISTENER} listens"


def check_write_arrives(settings: Settings) -> str:
    """Start Spark, write a few rows, and ask the catalog for the run.

    Raises:
        CheckFailedError: it is not there, or the catalog does not answer; that is asked first.
        SettingError: the catalog's address or key can't be used.
    """
    if not settings.lineage.enabled:
        return SWITCHED_OFF
    client = CatalogClient.from_settings(settings)
    try:
        # Before Spark, which takes its time to start.
        ask(client, "/api/v1/namespaces?limit=1")
        client.close()
        run_id = _write(settings)
        run = ask_for_run(client, run_id)
    finally:
        client.close()
    state = run.get("state") if run else None
    if state != "COMPLETED":
        raise CheckFailedError(
            f"the catalog at {client.url} has no completed run {run_id} of {_JOB}: {state}",
            hint="`headwater lineage spool status` tells what waits, and why",
        )
    return f"a write of Spark's has arrived, as {CHECKS_NAMESPACE}/{_JOB}"


def _write(settings: Settings) -> str:
    """A few rows, with lineage; returns the run's id."""
    lineage = settings.lineage.model_copy(
        update={"namespace": CHECKS_NAMESPACE, "disabled_jobs": []}
    )
    settings = settings.model_copy(update={"lineage": lineage})
    spark = create_spark_session_with_lineage(_JOB, settings=settings, connectors=())
    try:
        check_listener_loaded(spark)
        application = current_application(spark)
        if application is None:
            raise CheckFailedError(
                f"no run of {_JOB} was begun", hint="look at MARQUEZ_URL and MARQUEZ_API_KEY"
            )
        with tempfile.TemporaryDirectory() as folder:
            spark.range(3).write.parquet(f"file://{folder}/rows")
            spark.read.parquet(f"file://{folder}/rows").write.parquet(f"file://{folder}/copy")
        return application.run.run_id
    finally:
        finish_lineage()
