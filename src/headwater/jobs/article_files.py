"""Articles in CSV files: read by Spark, and what can't be read told apart with its reason."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError
from headwater.jobs.articles import FIELDS, REQUIRED, article_rows
from headwater.spark.writers.lineage_struct import JobRun, file_lineage
from headwater.spark.writers.merge_into import MergeRule

_CORRUPT = "_corrupt"
_FILE = "_file"
# RFC 4180: a quote in a quoted text is doubled.
_FORMAT = {"header": "true", "escape": '"', "mode": "PERMISSIVE"}

# One row for each text that was refused, whenever it was met first.
MERGE_REJECTED = MergeRule(key="rejected_id", newest=("raw",), unless="true")


@dataclass(frozen=True)
class Counts:
    """Rows of the files that were read."""

    read: int
    rejected: int


class ArticleFiles:
    """CSV files with the columns of an article, in their order, under a header."""

    def __init__(self, spark: SparkSession, path: str, *, one_line_each: bool = False) -> None:
        self._observation = Observation("articles")
        text = ", ".join(f"`{name}` string" for name in (*FIELDS, _CORRUPT))
        options = {
            **_FORMAT,
            "columnNameOfCorruptRecord": _CORRUPT,
            # A text may have several lines; then a file is read as a whole.
            "multiLine": str(not one_line_each).lower(),
            # Columns in another order are refused, not taken for each other.
            "enforceSchema": "false",
        }
        try:
            read = spark.read.schema(text).options(**options).csv(_located(path))
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                raise InputError(
                    f"no file is there: {path}", hint="--files, or SCRAPED_DATA_PATH", path=path
                ) from None
            raise
        # As everybody else writes it; Hadoop writes `file:/data`.
        file = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "file:///")
        named = read.withColumn(_FILE, file)
        self._rows = named.select("*", _reason().alias("reason"))

    def articles(self, maker: JobRun, *, lineage_enabled: bool) -> DataFrame:
        """Rows of the table."""
        count = F.count(F.lit(1)).alias("read")
        observed = self._rows.observe(self._observation, count, F.count("reason").alias("rejected"))
        good = observed.where("reason IS NULL")
        read = {name: F.col(name) for name in FIELDS}
        read["published_at"] = F.col("published_at").try_cast("timestamp")
        return article_rows(
            good,
            read,
            file_lineage(F.col(_FILE), F.col("id"), maker),
            batch_processed_at=F.current_timestamp(),
            processing_job=F.lit(maker.job_name),
            lineage_job_id=F.lit(maker.run_id),
            lineage_enabled=F.lit(lineage_enabled),
        )

    def rejected(self, maker: JobRun) -> DataFrame:
        """Rows that are no articles, as text, each with the reason."""
        bad = self._rows.where("reason IS NOT NULL")
        raw = F.coalesce(F.col(_CORRUPT), F.to_json(F.struct(*FIELDS)))
        return bad.select(
            F.substring(F.sha2(F.concat_ws("\0", _FILE, raw), 256), 1, 32).alias("rejected_id"),
            F.col(_FILE).alias("file"),
            raw.alias("raw"),
            "reason",
            F.lit(maker.job_name).alias("job_name"),
            F.lit(maker.job_version).alias("job_version"),
            F.lit(maker.run_id).alias("run_id"),
            F.current_timestamp().alias("rejected_at"),
        )

    @property
    def counts(self) -> Counts:
        """Of what was read; known once the articles are written."""
        found = self._observation.get
        return Counts(found["read"], found["rejected"])


def _located(path: str) -> str:
    """Files that lie here by their whole path: Java may stand in another folder."""
    here = str(Path(path).absolute())
    return f"file://{here}" if "://" not in path and glob.glob(here) else path


def _reason() -> Column:
    time = F.col("published_at")
    reason = F.when(
        F.col(_CORRUPT).isNotNull(),
        F.lit(f"the row has not the {len(FIELDS)} columns of the header"),
    )
    for name in REQUIRED:
        reason = reason.when(F.col(name).isNull(), F.lit(f"field {name!r} is missing or empty"))
    unreadable = time.try_cast("timestamp").isNull()
    message = F.concat(F.lit("field 'published_at' is no timestamp: "), F.substring(time, 1, 100))
    return reason.when(unreadable, message)
