"""The lineage of a streaming query of our own: one run for each start of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.collector.configuration import as_submitted
from headwater.collector.description import Description, describe
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.schemas import schemas_in
from headwater.collector.sources import topic_dataset
from headwater.errors import SettingError
from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import Dataset
from headwater.openlineage.progress import OBSERVED
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.settings import Settings
from headwater.spark.lease import lease_if_local
from headwater.spark.query_runner import OnBatch, QueryRun, StopSignal, new_run_id
from headwater.spark.session import running_session

_LOG = logging.getLogger(__name__)

# Names of queries that tell of themselves while they run: `listener` leaves them out.
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
) -> Iterator[QueryRun]:
    """Hold the checkpoint, turn signals into stop requests and report lineage while the body runs
    one streaming query.

    Raises:
        CheckpointInUseError: another driver holds the checkpoint.
    """
    stop, run_id = StopSignal(), run_id or new_run_id()
    with (
        stop.on_signals(),
        lease_if_local(checkpoint, spark),
        report_streaming_run(lineage, run_id, settings, stop, on_batch) as reported,
    ):
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
            yield reporter.behind(on_batch)
    except BaseException as error:
        reporter.end(error, stopped=not isinstance(error, Exception))
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
        settings = as_submitted(settings)
        emitter = emitter_of(settings)
        if emitter is None:
            return None
        rows = query.rows
        spark = running_session() if rows is None else rows.sparkSession
        schema_of = schemas_in(spark) if spark is not None else None
        found = _describe(query, settings)
        return StreamingRunReporter(query, run_id, settings, emitter, found, schema_of)
    except Exception as error:
        _LOG.warning("no lineage for query %r: %s: %s", query.job_name, type(error).__name__, error)
        if emitter is not None:
            emitter.close()
        return None


def emitter_of(settings: Settings) -> Emitter | None:
    """None if lineage is off, or its settings are wrong."""
    try:
        return Emitter.from_settings(settings)
    except SettingError as error:
        # A job does not fail because of its lineage; `headwater doctor` reports the same error.
        _LOG.warning("lineage is not sent: %s", error.message)
        return None


def _describe(query: QueryDescription, settings: Settings) -> Description:
    if query.rows is None:
        return Description()
    return describe(
        query.rows,
        columns=query.columns,
        hidden=query.roles.hidden,
        whole=query.whole,
        seconds=settings.lineage.analysis_seconds,
    )


def is_finite(trigger: Mapping[str, Any] | None) -> bool:
    """Whether a query with this trigger ends by itself."""
    return bool(trigger and {"availableNow", "once"} & trigger.keys())


def topic_outputs(topics: Sequence[str], settings: Settings) -> list[Dataset]:
    """Topics of the settings' cluster, as a query's outputs."""
    return [topic_dataset(settings.bootstrap_servers, topic) for topic in topics]


def table_output(name: str, location: str, table_format: str) -> Dataset:
    """A table as a query's output."""
    return iceberg_table(name, location) if table_format == "iceberg" else delta_table(location)


def counted(rows: DataFrame, settings: Settings, job_name: str) -> DataFrame:
    """Rows that Spark counts as they pass, for sinks that do not; nothing if lineage is off."""
    if not settings.lineage_enabled_for(job_name):
        return rows
    return rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
