"""Runs one streaming query with lineage, and the lineage settings of a Spark session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.collector.columns import Description, describe
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.sources import schemas_in, topic_dataset
from headwater.errors import SettingError
from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import Dataset
from headwater.openlineage.progress import OBSERVED
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.settings import Settings, running_under_spark_submit
from headwater.spark.configuration import LINEAGE_PLUGIN, joined_list
from headwater.spark.query_runner import (
    OnBatch,
    QueryRun,
    StopSignal,
    new_run_id,
    stoppable,
    was_cancelled,
)
from headwater.spark.session import running_session, user_configuration

_LOG = logging.getLogger(__name__)

# Names of running queries that report themselves: `listener` skips them.
SELF_REPORTING_QUERIES: set[str] = set()


@contextmanager
def query_run(
    spark: SparkSession,
    checkpoint: Path | str,
    lineage: QueryDescription | None,
    settings: Settings,
    *,
    run_id: str | None = None,
    on_batch: OnBatch | None = None,
    stop: StopSignal | None = None,
) -> Iterator[QueryRun]:
    """Hold the checkpoint and report lineage while the body runs one streaming query.

    Args:
        stop: requests that the query is stopped. Default: a new one, which signals set if
            Headwater owns the process.

    Raises:
        CheckpointInUseError: another driver holds the checkpoint.
    """
    with (
        stoppable(checkpoint, spark, stop) as stop,
        reported_run(stop, lineage, settings, run_id=run_id, on_batch=on_batch) as run,
    ):
        yield run


@contextmanager
def reported_run(
    stop: StopSignal,
    lineage: QueryDescription | None,
    settings: Settings,
    *,
    run_id: str | None = None,
    on_batch: OnBatch | None = None,
) -> Iterator[QueryRun]:
    """The second half of `query_run`, for jobs that read the checkpoint before they start."""
    run_id = run_id or new_run_id()
    with report_streaming_run(lineage, run_id, settings, stop, on_batch) as reported:
        yield QueryRun(run_id, stop, reported)


@contextmanager
def report_streaming_run(
    query: QueryDescription | None,
    run_id: str,
    settings: Settings,
    stop: StopSignal,
    on_batch: OnBatch | None = None,
) -> Iterator[OnBatch | None]:
    """Emit the events of a query's run while the body runs it; yields the callback for its
    micro-batches, which also calls `on_batch`.

    With lineage switched off it yields `on_batch` unchanged.
    """
    enabled = query is not None and settings.lineage_enabled_for(query.job_name)
    reporter = _reporter_of(query, run_id, settings) if query is not None and enabled else None
    if query is None or reporter is None:
        yield on_batch
        return
    reporter.start()
    SELF_REPORTING_QUERIES.add(query.job_name)
    try:
        with reporter.measures.counting():
            yield reporter.wrap(on_batch)
    except BaseException as error:
        interrupted = stop.requested and was_cancelled(error)
        reporter.end(error, stopped=interrupted or not isinstance(error, Exception))
        raise
    else:
        reporter.end(None, stopped=stop.requested or not query.finite)
    finally:
        SELF_REPORTING_QUERIES.discard(query.job_name)


def _reporter_of(
    query: QueryDescription, run_id: str, settings: Settings
) -> StreamingRunReporter | None:
    """None if lineage is off or can't be started; errors are logged and never propagate."""
    emitter = None
    try:
        settings = with_spark_submit_options(settings)
        emitter = emitter_of(settings)
        if emitter is None:
            return None
        rows = query.rows
        spark = running_session() if rows is None else rows.sparkSession
        schema_of = schemas_in(spark) if spark is not None else None
        description = _describe(query, settings)
        return StreamingRunReporter(query, run_id, settings, emitter, description, schema_of)
    except Exception as error:
        _LOG.warning("no lineage for query %r: %s: %s", query.job_name, type(error).__name__, error)
        if emitter is not None:
            emitter.close()
        return None


def emitter_of(settings: Settings) -> Emitter | None:
    """None if lineage is disabled, or its settings are invalid."""
    try:
        return Emitter.from_settings(settings)
    except SettingError as error:
        # A job does not fail because of its lineage; `headwater doctor` reports the same error.
        _LOG.warning("lineage is disabled: %s", error.message)
        return None


def _describe(query: QueryDescription, settings: Settings) -> Description:
    if query.rows is None:
        return Description()
    return describe(
        query.rows,
        columns=query.columns,
        hidden=query.roles.hidden,
        unnested=query.unnested,
        seconds=settings.lineage.analysis_seconds,
    )


def is_finite(trigger: Mapping[str, Any] | None) -> bool:
    """Whether a query with this trigger ends by itself."""
    return bool(trigger and {"availableNow", "once"} & trigger.keys())


def topic_outputs(topics: Sequence[str], settings: Settings) -> list[Dataset]:
    """Output datasets for topics of the cluster of the settings."""
    return [topic_dataset(settings.bootstrap_servers, topic) for topic in topics]


def table_output(name: str, location: str, table_format: str) -> Dataset:
    """Output dataset for a table."""
    return iceberg_table(name, location) if table_format == "iceberg" else delta_table(location)


def observe_row_count(rows: DataFrame, settings: Settings, job_name: str) -> DataFrame:
    """Let Spark count rows, for sinks that do not; the same rows if lineage is disabled."""
    if not settings.lineage_enabled_for(job_name):
        return rows
    return rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))


LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
LISTENERS, PLUGINS = "spark.extraListeners", "spark.plugins"
TRANSPORT, URL = "spark.openlineage.transport.type", "spark.openlineage.transport.url"
NAMESPACE = "spark.openlineage.namespace"
PARENT_JOB, PARENT_RUN = "spark.openlineage.parentJobName", "spark.openlineage.parentRunId"
PARENT_NAMESPACE = "spark.openlineage.parentJobNamespace"
_LINEAGE_PREFIX = "spark.openlineage."
_PARENT = {
    PARENT_JOB: "parent_job",
    PARENT_RUN: "parent_run_id",
    PARENT_NAMESPACE: "parent_namespace",
}
_API_KEY = "spark.openlineage.transport.auth.apiKey"


@dataclass(frozen=True)
class LineageConfiguration:
    """Spark's configuration, and the settings with the values that it overrides.

    Attributes:
        added: the part that Headwater has added to the user's.
        through_spool: whether the listener's events go through Headwater's spool. With a transport
            other than `http` the listener sends them itself.
    """

    spark: Mapping[str, str]
    settings: Settings
    through_spool: bool
    added: Mapping[str, str]


def lineage_configuration(
    app_name: str, settings: Settings, additional: Mapping[str, str]
) -> LineageConfiguration:
    """Configuration for lineage. The user's `additional` keys win; lists are joined."""
    lineage = settings.lineage
    configuration = {
        TRANSPORT: "http",
        URL: settings.catalog_url,
        NAMESPACE: lineage.namespace,
        PARENT_JOB: lineage.parent_job or app_name,
        **({PARENT_RUN: str(lineage.parent_run_id)} if lineage.parent_run_id else {}),
        **({PARENT_NAMESPACE: lineage.parent_namespace} if lineage.parent_namespace else {}),
        **additional,
    }
    through_spool = configuration[TRANSPORT] == "http"
    configuration[LISTENERS] = joined_list(additional.get(LISTENERS), LISTENER)
    if through_spool:
        configuration[PLUGINS] = joined_list(additional.get(PLUGINS), LINEAGE_PLUGIN)
    else:
        # Other transports have no use for the default address and may reject it.
        configuration = {k: v for k, v in configuration.items() if k != URL or k in additional}
    changed = _changed(settings, configuration, additional)
    added = {key: value for key, value in configuration.items() if key not in additional}
    return LineageConfiguration(configuration, changed, through_spool, added)


def lineage_options(
    settings: Settings, running: SparkSession | None, added: Mapping[str, str]
) -> dict[str, str]:
    """The lineage options that the user has set, in the running session or for a new one.

    Args:
        added: what Headwater has added to the running session.
    """
    if running is None:
        found = user_configuration(settings)
    else:
        values: Any = running.conf.getAll
        found = {key: value for key, value in values.items() if added.get(key) != value}
    return {
        key: value
        for key, value in found.items()
        if key.startswith(_LINEAGE_PREFIX) or key in (LISTENERS, PLUGINS)
    }


def spark_submit_options() -> dict[str, str]:
    """Lineage options of `spark-submit --conf`; empty without spark-submit."""
    if not running_under_spark_submit():
        return {}
    # The options are properties of the JVM: Python has to connect to it first.
    SparkContext._ensure_initialized()  # noqa: SLF001
    found = SparkConf().getAll()
    return {key: value for key, value in found if key.startswith(_LINEAGE_PREFIX)}


def with_spark_submit_options(settings: Settings) -> Settings:
    """The settings with the options of `spark-submit`, for queries without the listener."""
    options = spark_submit_options()
    return lineage_configuration("", settings, options).settings if options else settings


def _changed(
    settings: Settings, configuration: Mapping[str, str], additional: Mapping[str, str]
) -> Settings:
    """The settings with the address, key, namespace and parent of Spark's configuration."""
    url = configuration.get(URL, settings.catalog.url)
    catalog = settings.catalog.model_copy(update={"url": url})
    if _API_KEY in configuration:
        key = SecretStr(configuration[_API_KEY])
        catalog = catalog.model_copy(update={"api_key": key})
    named = {"namespace": configuration[NAMESPACE]}
    # Only the user's: the listener always needs a parent, by default the job itself.
    for setting, name in _PARENT.items():
        if setting in additional:
            named[name] = additional[setting]
    lineage = settings.lineage.model_copy(update=named)
    return settings.model_copy(update={"catalog": catalog, "lineage": lineage})
