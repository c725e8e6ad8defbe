"""The lineage of a streaming query of our own: one run for each start of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.errors import SettingError
from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import Dataset
from headwater.openlineage.progress import OBSERVED
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.settings import Settings
from headwater.spark.lifecycle import OnBatch, StopSignal
from headwater.spark.lineage.configuration import as_submitted
from headwater.spark.lineage.description import Description, describe
from headwater.spark.lineage.queries import StreamQuery
from headwater.spark.lineage.schemas import schemas_in
from headwater.spark.lineage.sources import topic_dataset
from headwater.spark.lineage.teller import Say, StreamTeller
from headwater.spark.session import running_session

# Names of queries that tell of themselves while they run: `listener` leaves them out.
SPEAKING: set[str] = set()


@contextmanager
def tell_of_query(
    query: StreamQuery | None,
    run_id: str,
    settings: Settings,
    stop: StopSignal,
    on_batch: OnBatch | None = None,
    say: Say = lambda line: None,
) -> Iterator[OnBatch | None]:
    """Tell of a query while the body runs it; gives what takes its micro-batches.

    With lineage switched off nothing happens here, and `on_batch` is handed back as it is.
    """
    told = query is not None and settings.tells_of(query.job_name)
    teller = _teller_of(query, run_id, settings, say) if query is not None and told else None
    if query is None or teller is None:
        yield on_batch
        return
    teller.start()
    SPEAKING.add(query.job_name)
    try:
        with teller.measures.counting():
            yield teller.behind(on_batch)
    except BaseException as error:
        teller.end(error, stopped=not isinstance(error, Exception))
        raise
    else:
        teller.end(None, stopped=stop.requested or not query.finite)
    finally:
        SPEAKING.discard(query.job_name)


def _teller_of(
    query: StreamQuery, run_id: str, settings: Settings, say: Say
) -> StreamTeller | None:
    """None if lineage is off, or if something went wrong: the query does not hear of it."""
    emitter = None
    try:
        settings = as_submitted(settings)
        emitter = emitter_of(settings, say)
        if emitter is None:
            return None
        rows = query.rows
        spark = running_session() if rows is None else rows.sparkSession
        schema_of = schemas_in(spark) if spark is not None else None
        found = _describe(query, settings)
        return StreamTeller(query, run_id, settings, emitter, found, say, schema_of)
    except Exception as error:
        say(f"no lineage of query {query.job_name!r}: {type(error).__name__}: {error}")
        if emitter is not None:
            emitter.close()
        return None


def emitter_of(settings: Settings, say: Say) -> Emitter | None:
    """None if lineage is off, or can't be sent."""
    try:
        return Emitter.from_settings(settings, say)
    except SettingError as error:
        # A job does not fail for its lineage; `headwater doctor` tells the same.
        say(f"no lineage is sent: {error.message}")
        return None


def _describe(query: StreamQuery, settings: Settings) -> Description:
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
    if not settings.tells_of(job_name):
        return rows
    return rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
