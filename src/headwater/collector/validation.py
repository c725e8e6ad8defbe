"""Checks for `headwater doctor`: does the lineage of a batch job reach the catalog?"""

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
from headwater.model.local_files import file_uri
from headwater.openlineage.transport import CatalogClient
from headwater.openlineage.validation import SWITCHED_OFF, request_catalog, request_run
from headwater.settings import Settings

_JOB = "lineage_of_a_write_arrives"


def check_listener_jar(settings: Settings) -> str:
    """Check that the cache has the jar of the listener.

    Raises:
        CheckFailedError: it has not.
    """
    fetch = "`headwater jars fetch openlineage`; a job with lineage fetches it too"
    missing = missing_jars("openlineage", settings)
    if missing:
        raise CheckFailedError(f"{missing[0].coordinate} is not in the cache", hint=fetch)
    wanted = LISTENER.replace(".", "/") + ".class"
    for jar in locked_jars("openlineage", settings):
        with zipfile.ZipFile(settings.jars_dir / jar.file_name) as archive:
            if wanted in archive.namelist():
                return f"{LISTENER} is in {jar.file_name}"
    raise CheckFailedError(f"no pinned jar contains {LISTENER}", hint="`headwater jars verify`")


def check_listener_loaded(spark: SparkSession) -> str:
    """Check that the listener is registered with Spark.

    Raises:
        CheckFailedError: it is not.
    """
    if not has_listener(spark):
        raise CheckFailedError(
            f"the session has no {LISTENER}",
            hint="create it with `create_spark_session_with_lineage`; with spark-submit, add "
            '--jars "$(headwater jars path)"',
        )
    return f"{LISTENER} is registered"


def check_write_arrives(settings: Settings) -> str:
    """Start Spark, write a few rows, and read the run from the catalog.

    Raises:
        CheckFailedError: the catalog does not respond, which is checked first, or has no such run.
        SettingError: the catalog's address or key is invalid.
    """
    if not settings.lineage.enabled:
        return SWITCHED_OFF
    client = CatalogClient.from_settings(settings)
    try:
        # Before Spark, which takes a while to start.
        request_catalog(client, "/api/v1/namespaces?limit=1")
        client.close()
        run_id = _write(settings)
        run = request_run(client, run_id)
    finally:
        client.close()
    state = run.get("state") if run else None
    if state != "COMPLETED":
        raise CheckFailedError(
            f"{client.url} has no completed run {run_id} of {_JOB}: {state}",
            hint="`headwater spool status` shows queued events",
        )
    return f"the lineage of a Spark write has arrived, as {CHECKS_NAMESPACE}/{_JOB}"


def _write(settings: Settings) -> str:
    """Write a few rows with lineage; returns the run id."""
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
                f"no run of {_JOB} was started", hint="check MARQUEZ_URL and MARQUEZ_API_KEY"
            )
        with tempfile.TemporaryDirectory() as folder:
            uri = file_uri(folder)
            spark.range(3).write.parquet(f"{uri}/rows")
            spark.read.parquet(f"{uri}/rows").write.parquet(f"{uri}/copy")
        return application.run.run_id
    finally:
        finish_lineage()
