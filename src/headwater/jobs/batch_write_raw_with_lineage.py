"""Writes news articles from CSV files to an Iceberg table, with lineage in the catalog.

Rows are merged by `id`: the same files again change nothing.
"""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import (
    current_application,
    spark_session_with_lineage,
)
from headwater.errors import InputError
from headwater.jobs.articles import (
    FILES,
    MERGE_FROM_FILES,
    MERGE_REJECTED,
    PARTITIONED_BY,
    TABLE,
    ArticleFiles,
    Counts,
    article_settings,
    table_schema,
)
from headwater.jobs.options import JobCommand
from headwater.process import job_logging
from headwater.settings import Settings, arm_fault_points, load
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.merge_into import merge, snapshot_configuration
from headwater.spark.writers.table import check_columns, table_of
from headwater.storage.tables.registry import register

_LOG = logging.getLogger(__name__)

NAME = "BatchWriteRawWithLineage"


@click.command("batch_write_raw_with_lineage", cls=JobCommand)
@click.option("--files", metavar="PATH", help=FILES.help)
@click.option("--table", metavar="NAME", help=TABLE.help)
@click.option(
    "--one-line-each", is_flag=True, help="Each record is one line: read files in parallel."
)
@click.option("--job-name", default=NAME, show_default=True)
@click.option("--job-version", help="Default: the setting jobs.version.")
@click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
@click.pass_obj
def main(settings: Settings | None, /, **options: Any) -> None:
    """Merge news articles from CSV files into an Iceberg table."""
    settings = article_settings(settings or load())
    arm_fault_points(settings)
    with job_logging(options["job_name"], quiet=options["quiet"]):
        _write(settings, **options)


def _write(settings: Settings, **options: Any) -> None:
    files = FILES.value(options["files"], settings)
    table = TABLE.value(options["table"], settings)
    _LOG.info("%s -> %s, starting Spark", files, table)
    with spark_session_with_lineage(
        options["job_name"], settings=settings, connectors=("iceberg",)
    ) as spark:
        add_lineage_metadata(
            spark,
            job_type="batch",
            source_system="files",
            target_system="iceberg",
            description="News articles from CSV files, merged by id",
            location=Path(__file__),
        )
        counts = write_articles(
            spark,
            settings,
            files=files,
            table=table,
            job_name=options["job_name"],
            job_version=options["job_version"],
            one_line_each=options["one_line_each"],
        )
    _LOG.info("%d rows of %s are in %s", counts.read - counts.rejected, files, table)
    if counts.rejected:
        _LOG.warning("%d rows are invalid, see %s_rejected", counts.rejected, table)


def write_articles(
    spark: SparkSession,
    settings: Settings | None = None,
    *,
    files: str | None = None,
    table: str | None = None,
    job_name: str = NAME,
    job_version: str | None = None,
    one_line_each: bool = False,
) -> Counts:
    """Merge articles of the files into the table, and invalid rows into `<table>_rejected`.

    Default files and table: those of `SCRAPED_DATA_PATH` and `ICEBERG_TABLE`.

    Raises:
        InputError: there are no files, or they have other columns.
        LineageTableError: the table has other columns.
    """
    settings = settings or load()
    files, table = FILES.value(files, settings), TABLE.value(table, settings)
    application = current_application(spark)
    run_id = application.run.run_id if application else str(uuid.uuid4())
    job_run = JobRun(job_name, job_version or settings.jobs.version, run_id)
    articles = ArticleFiles(spark, files, one_line_each=one_line_each)
    rows = articles.articles(job_run, lineage_enabled=application is not None)
    target = table_of(spark, table, "iceberg")
    target.ensure(table_schema(), PARTITIONED_BY)
    check_columns(target, rows)
    register(target.known(), settings)
    properties = {"headwater.job": job_name, "headwater.run-id": run_id}
    try:
        merge(table, rows, MERGE_FROM_FILES, snapshot_configuration(properties))
    except Exception as error:
        if "CSV header does not conform" in str(error):
            raise InputError(
                f"a file of {files} has other columns than an article: {_first_lines(error)}",
                hint="use id, published_at, title, body, source, url, in this order",
            ) from None
        raise
    counts = articles.counts
    if counts.rejected:
        invalid = articles.rejected(job_run)
        rejected = table_of(spark, f"{table}_rejected", "iceberg")
        rejected.ensure(invalid.schema)
        merge(rejected.name, invalid, MERGE_REJECTED, snapshot_configuration(properties))
    return counts


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line.startswith(("Header:", "CSV file:")))


if __name__ == "__main__":
    main()
