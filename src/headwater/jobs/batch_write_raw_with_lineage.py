"""Writes news articles from CSV files to an Iceberg table, and tells the catalog.

Rows are merged by `id`: the same files once more change nothing.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from headwater import faultpoints
from headwater.errors import InputError
from headwater.jobs.article_files import MERGE_REJECTED, ArticleFiles, Counts
from headwater.jobs.articles import MERGE_FROM_FILES, PARTITIONED_BY, table_schema
from headwater.jobs.options import JobCommand
from headwater.jvm.ivy import Progress
from headwater.settings import Settings, load
from headwater.spark import (
    add_lineage_metadata,
    create_spark_session_with_lineage,
    finish_lineage,
)
from headwater.spark.lineage.session import current_application
from headwater.tables.column import Maker
from headwater.tables.merging import merge
from headwater.tables.registry import register
from headwater.tables.writer import check_columns, table_of

NAME = "BatchWriteRawWithLineage"


def _say(line: str) -> None:
    click.echo(f"{NAME}: {line}", err=True)


def _watch(group: str) -> Progress:
    _say(f"fetching jars: {group}")
    return lambda done, total: None


@click.command("batch_write_raw_with_lineage", cls=JobCommand)
@click.option("--files", metavar="PATH", help="Default: the setting articles.files.")
@click.option("--table", metavar="NAME", help="Default: the setting articles.table.")
@click.option("--one-line-each", is_flag=True, help="Records are single lines: read in parallel.")
@click.option("--job-name", default=NAME, show_default=True)
@click.option("--job-version", help="Default: the setting jobs.version.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.pass_obj
def main(settings: Settings | None, /, **given: Any) -> None:
    """Merge news articles from CSV files into an Iceberg table."""
    settings = settings or load()
    faultpoints.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")
    say = (lambda line: None) if given["quiet"] else _say
    files = given["files"] or settings.articles.files
    table = given["table"] or settings.articles.table
    say(f"{files} -> {table}, starting Spark")
    spark = create_spark_session_with_lineage(
        given["job_name"], settings=settings, connectors=("iceberg",), watch=_watch
    )
    try:
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
            job_name=given["job_name"],
            job_version=given["job_version"],
            one_line_each=given["one_line_each"],
        )
    except BaseException as error:
        finish_lineage(error)
        raise
    finish_lineage()
    say(f"{counts.read - counts.rejected} rows of {files} are in {table}")
    if counts.rejected:
        say(f"{counts.rejected} rows can't be read: {table}_rejected says why")


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
    """Merge the files' articles into the table, and what is none into `<table>_rejected`.

    Files and table are those of the settings unless they are given.

    Raises:
        InputError: there are no files, or their columns are others.
        LineageTableError: the table has other columns.
    """
    settings = settings or load()
    files, table = files or settings.articles.files, table or settings.articles.table
    application = current_application(spark)
    run_id = application.run.run_id if application else str(uuid.uuid4())
    maker = Maker(job_name, job_version or settings.jobs.version, run_id)
    articles = ArticleFiles(spark, files, one_line_each=one_line_each)
    rows = articles.articles(maker, lineage_enabled=application is not None)
    target = table_of(spark, table, "iceberg")
    target.ensure(table_schema(), PARTITIONED_BY)
    check_columns(target, rows)
    register(target.known(), settings)
    marks = {"headwater.job": job_name, "headwater.run-id": run_id}
    try:
        merge(table, rows, MERGE_FROM_FILES, marks)
    except Exception as error:
        if "CSV header does not conform" in str(error):
            raise InputError(
                f"a file of {files} has other columns than an article: {_first_lines(error)}",
                hint="id, published_at, title, body, source, url; in this order",
            ) from None
        raise
    counts = articles.counts
    if counts.rejected:
        bad = articles.rejected(maker)
        refused = table_of(spark, f"{table}_rejected", "iceberg")
        refused.ensure(bad.schema)
        merge(refused.name, bad, MERGE_REJECTED, marks)
    return counts


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line.startswith(("Header:", "CSV file:")))


if __name__ == "__main__":
    main()
