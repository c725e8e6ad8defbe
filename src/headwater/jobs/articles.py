"""The table of news articles, shared by the batch and the streaming job, and CSV files of them.

The columns show which job wrote a row last: `kafka_partition`, `kafka_offset` and `processed_at`
are set by the streaming job, `batch_processed_at` and `processing_job` by the batch job.

The variables of these jobs (`KAFKA_TOPIC`, …) are common names: no other job reads them.
"""

from __future__ import annotations

import glob
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.errors import InputError
from headwater.model.local_files import file_uri
from headwater.settings import Settings, variable
from headwater.spark.compat import condition_of, struct_of
from headwater.spark.utc import utc_timestamp
from headwater.spark.writers.lineage_struct import JobRun, file_lineage
from headwater.spark.writers.merge_into import MergeRule
from headwater.storage.tables.contract import COLUMN, TYPE

_LOG = logging.getLogger(__name__)

NAMESPACE = "neuronews"


@dataclass(frozen=True)
class ArticleOption:
    """An option of these jobs with its variable. Precedence: option, variable, default."""

    key: str
    option: str
    variable: str
    default: str = ""

    @property
    def help(self) -> str:
        """The default, for the help text of the option."""
        default = self.default or "a folder in HEADWATER_HOME/checkpoints"
        return f"Default: {self.variable}, then {default}."

    def value(self, given: str | None, settings: Settings) -> str:
        """`given` by an option or an argument, or the value of the variable, or the default."""
        current = given or variable(self.variable)
        former: str | None = getattr(settings.articles, self.key)
        if former and not current:
            _LOG.warning(
                "setting `articles.%s` is deprecated: use %s or %s",
                self.key,
                self.option,
                self.variable,
            )
        return current or former or self.default


FILES = ArticleOption("files", "--files", "SCRAPED_DATA_PATH", "data/scraped/latest/*.csv")
TOPIC = ArticleOption("topic", "--input-topic", "KAFKA_TOPIC", "articles.raw.v1")
TABLE = ArticleOption("table", "--table", "ICEBERG_TABLE", "demo.news.articles_raw")
CHECKPOINT = ArticleOption("checkpoint", "--checkpoint", "CHECKPOINT_LOCATION")


def article_settings(settings: Settings) -> Settings:
    """The settings with the namespace of these jobs and `ENVIRONMENT`, unless others are set."""
    defaults = {"namespace": NAMESPACE, "environment": variable("ENVIRONMENT")}
    lineage = settings.lineage
    update = {
        name: value
        for name, value in defaults.items()
        if value and name not in lineage.model_fields_set
    }
    return settings.model_copy(update={"lineage": lineage.model_copy(update=update)})


# Fields of an article, in the JSON of the topic and in CSV files.
FIELDS: Mapping[str, str] = {
    "id": "string",
    "published_at": "timestamp",
    "title": "string",
    "body": "string",
    "source": "string",
    "url": "string",
}
# The id is the merge key, the time selects the partition.
REQUIRED = ("id", "published_at")

# Columns that the jobs add.
OWN: Mapping[str, str] = {
    "kafka_partition": "int",
    "kafka_offset": "bigint",
    "processed_at": "timestamp",
    "lineage_job_id": "string",
    "batch_processed_at": "timestamp",
    "processing_job": "string",
    "lineage_enabled": "boolean",
}
PARTITIONED_BY = ("days(published_at)",)

# True in rows that stand for a deletion; not a column of the table.
DELETED = "_deleted"

# Of several records of an id in a batch the highest offset wins. A record that is not newer than
# the row changes nothing, so that reading a topic again from the start reverts nothing.
MERGE_FROM_TOPIC = MergeRule(
    key="id",
    newest=("kafka_offset", "kafka_partition"),
    unless="t.lineage.topic = s.lineage.topic AND t.kafka_partition = s.kafka_partition "
    "AND t.kafka_offset >= s.kafka_offset",
    deleted=DELETED,
)
# Files have no order: the later article wins, then the greater file name and text, so that the
# same files always give the same rows. Equal rows are not rewritten.
MERGE_FROM_FILES = MergeRule(
    key="id",
    newest=("published_at", "lineage.parents", "title", "body", "source", "url"),
    unless=" AND ".join(f"t.{name} <=> s.{name}" for name in FIELDS),
)
# One row for each rejected text, from its first occurrence.
MERGE_REJECTED = MergeRule(key="rejected_id", newest=("raw",), unless="true")

_CORRUPT = "_corrupt"
_FILE = "_file"
# RFC 4180: quotes in quoted text are doubled.
_FORMAT = {"header": "true", "escape": '"', "mode": "PERMISSIVE"}


def table_schema() -> StructType:
    """The columns of the table; all are nullable, as each job sets only some of them."""
    columns = {**FIELDS, **OWN, COLUMN: TYPE}
    ddl = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return struct_of(ddl)


def article_rows(
    rows: DataFrame, article: Mapping[str, Column], lineage: Column, **own: Column
) -> DataFrame:
    """Rows of the table: the fields of the article, columns of the job, and lineage."""
    fields = [article[name].cast(kind).alias(name) for name, kind in FIELDS.items()]
    deleted = [DELETED] if DELETED in rows.columns else []
    added = [
        own.get(name, F.lit(None)).cast(kind).alias(name)  # columns of the other job are null
        for name, kind in OWN.items()
    ]
    return rows.select(*fields, *added, lineage.alias(COLUMN), *deleted)


@dataclass(frozen=True)
class Counts:
    """Row counts of the files."""

    read: int
    rejected: int


class ArticleFiles:
    """CSV files with a header and the columns of an article, in this order."""

    def __init__(self, spark: SparkSession, path: str, *, one_line_each: bool = False) -> None:
        self._observation = Observation("articles")
        schema = ", ".join(f"`{name}` string" for name in (*FIELDS, _CORRUPT))
        options = {
            **_FORMAT,
            "columnNameOfCorruptRecord": _CORRUPT,
            # Text may have several lines; then a file is not split.
            "multiLine": str(not one_line_each).lower(),
            # Refuse columns in another order instead of mixing them up.
            "enforceSchema": "false",
        }
        try:
            read = spark.read.schema(schema).options(**options).csv(_local_uri(path))
        except AnalysisException as error:
            if condition_of(error) == "PATH_NOT_FOUND":
                raise InputError(
                    f"no such file: {path}", hint="set --files or SCRAPED_DATA_PATH", path=path
                ) from None
            raise
        # The usual form; Hadoop writes `file:/data`.
        file = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "file:///")
        self._rows = read.withColumn(_FILE, file).select("*", _reason().alias("reason"))

    def articles(self, job_run: JobRun, *, lineage_enabled: bool) -> DataFrame:
        """Rows of the table, from the valid rows of the files."""
        count = F.count(F.lit(1)).alias("read")
        observed = self._rows.observe(self._observation, count, F.count("reason").alias("rejected"))
        valid = observed.where("reason IS NULL")
        fields = {name: F.col(name) for name in FIELDS}
        fields["published_at"] = utc_timestamp(F.col("published_at"))
        return article_rows(
            valid,
            fields,
            file_lineage(F.col(_FILE), F.col("id"), job_run),
            batch_processed_at=F.current_timestamp(),
            processing_job=F.lit(job_run.job_name),
            lineage_job_id=F.lit(job_run.run_id),
            lineage_enabled=F.lit(lineage_enabled),
        )

    def rejected(self, job_run: JobRun) -> DataFrame:
        """Invalid rows as text, with the reason."""
        invalid = self._rows.where("reason IS NOT NULL")
        raw = F.coalesce(F.col(_CORRUPT), F.to_json(F.struct(*FIELDS)))
        return invalid.select(
            F.substring(F.sha2(F.concat_ws("\0", _FILE, raw), 256), 1, 32).alias("rejected_id"),
            F.col(_FILE).alias("file"),
            raw.alias("raw"),
            "reason",
            F.lit(job_run.job_name).alias("job_name"),
            F.lit(job_run.job_version).alias("job_version"),
            F.lit(job_run.run_id).alias("run_id"),
            F.current_timestamp().alias("rejected_at"),
        )

    @property
    def counts(self) -> Counts:
        """Counts of the rows that were read; available after the articles are written."""
        counts = self._observation.get
        return Counts(counts["read"], counts["rejected"])


def _local_uri(path: str) -> str:
    """Local files by absolute path, as the JVM may have another working directory."""
    local = str(Path(path).absolute())
    return file_uri(local) if "://" not in path and glob.glob(local) else path


def _reason() -> Column:
    time = F.col("published_at")
    reason = F.when(
        F.col(_CORRUPT).isNotNull(),
        F.lit(f"the row does not have the {len(FIELDS)} columns of the header"),
    )
    for name in REQUIRED:
        reason = reason.when(F.col(name).isNull(), F.lit(f"field {name!r} is missing or empty"))
    unreadable = utc_timestamp(time).isNull()
    message = F.concat(
        F.lit("field 'published_at' is not a timestamp: "), F.substring(time, 1, 100)
    )
    return reason.when(unreadable, message)
