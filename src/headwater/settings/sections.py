"""The sections of the settings: each key with its default, its limits and its description.

Longer sections have their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from headwater.settings.paths import LocalPath, TableFolder


class Section(BaseModel):
    """A named group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Former names of keys, which keep working with a warning.
    renamed: ClassVar[Mapping[str, str]] = {}


class PostgresSettings(Section):
    """The local PostgreSQL."""

    port: int = Field(5432, ge=1, le=65535, description="Port of the local PostgreSQL.")


class ServicesSettings(Section):
    """Starting and stopping the local services."""

    start_timeout_seconds: float = Field(
        60.0, gt=0, description="Timeout for the start of a local service."
    )
    stop_timeout_seconds: float = Field(
        20.0, gt=0, description="Timeout for the stop of a local service; then it is killed."
    )
    min_free_mb: int = Field(
        512, ge=0, description="Free disk space, in MiB, that is required to start a service."
    )


class JvmSettings(Section):
    """Java and the jars."""

    java_home: LocalPath | None = Field(
        None,
        description="A Java 17 or 21. Default: the one on the PATH, then the one of the wheel.",
    )
    spark_home: LocalPath | None = Field(
        None, description="The folder of a Spark. Default: that of the package pyspark."
    )
    jars_dir: LocalPath | None = Field(
        None, description="Directory of downloaded jars. Default: in the user's cache directory."
    )
    ivy_settings: LocalPath | None = Field(
        None, description="An Ivy settings file, for example for a mirror."
    )
    download_timeout_seconds: float = Field(
        600.0, gt=0, description="Timeout for the download of one group of jars."
    )


class SparkSettings(Section):
    """Spark sessions that Headwater starts. With `spark-submit`, its configuration applies."""

    master: str = Field("local[*]", description="Spark master.")
    driver_memory: str = Field("1g", description="Heap of the driver.")
    java_options: str = Field("", description="Additional JVM options of the driver.")
    log_level: str = Field(
        "WARN",
        pattern="^(TRACE|DEBUG|INFO|WARN|ERROR|FATAL|OFF)$",
        description="Log level of Spark on stderr.",
    )
    kafka_options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Additional properties of Spark's Kafka clients, as named in Java. Security of "
        "the Python client is derived from them.",
    )
    stop_timeout_seconds: float = Field(
        60.0, gt=0, description="Timeout for a stopping job to finish its micro-batch."
    )


# One `*` at most; the sink gets the names as lines.
_HeaderPattern = Annotated[str, Field(pattern=r"^[^*\n]*\*?[^*\n]*$", min_length=1)]


class JobSettings(Section):
    """Settings of all jobs."""

    version: str = Field("v1.0.0", min_length=1, description="Version of the running job.")
    max_value_bytes: int = Field(
        900_000,
        gt=0,
        description="Values longer than this are dead-lettered by reference. Kafka's limit for a "
        "record with its headers is 1 MB.",
    )
    max_records_per_batch: int = Field(
        1_000_000,
        gt=0,
        description="Records of a stream per micro-batch with delivery `exactly-once`, unless "
        "`maxOffsetsPerTrigger` is given: an interrupted batch has to fit into memory.",
    )
    max_attempts: int = Field(
        3,
        ge=1,
        description='With `on_error="dead-letter"`: attempts of a micro-batch for which the code '
        "of the job raises an error, before its failing records are searched.",
    )
    max_failed_records: int = Field(
        100,
        ge=1,
        description='With `on_error="dead-letter"`: records of a micro-batch that may become '
        "dead letters because the code of the job raises an error. With more, the job stops.",
    )
    create_topics: bool = Field(
        True,
        description="Whether jobs create missing output topics. Input topics are never created.",
    )
    max_ahead_seconds: float = Field(
        86_400.0,
        ge=0,
        le=10 * 365 * 86_400,
        description="A join sends records whose event time is more than this after the start of "
        "their micro-batch to the dead letter topic: one of them would make all others late.",
    )
    inherit_headers: list[_HeaderPattern] = Field(
        [],
        description="Further headers that outputs inherit from their parent, as a JSON list of "
        'names; one `*` in a name stands for any text, and `["*"]` inherits all. Inherited '
        "without it: `traceparent`, `tracestate`, `baggage`, and `ce_*` unless they describe the "
        "content.",
    )
    drop_headers: list[str] = Field(
        [],
        description="Names of headers that are not copied from parents, as a JSON list.",
    )
    stamp: Literal["full", "compact"] = Field(
        "full",
        description="`full`: records have headers with the name, version and batch of the job. "
        "`compact`: only the lineage header, which has the run and the batch; the job is in the "
        "topic `kafka.runs_topic`.",
    )
    max_header_bytes: int = Field(
        64 * 1024,
        ge=0,
        description="Foreign headers of a record beyond this size in all, names included, are "
        "dropped and counted.",
    )
    max_headers: int = Field(
        100,
        ge=0,
        description="Foreign headers of a record beyond this number are dropped and counted.",
    )


class IndexSettings(Section):
    """The lineage index, which `impact` queries."""

    table: TableFolder | None = Field(
        None,
        description="Directory of the index, a Delta table. Default: `lineage-index` in `home`.",
    )
    tables: list[TableFolder] = Field(
        [],
        description="Directories of further Delta or Iceberg tables that `impact` searches, as a "
        "JSON list. Tables that jobs of this home wrote are always searched.",
    )


class IcebergSettings(Section):
    """The Iceberg catalog of the sessions that Headwater starts."""

    catalog: str = Field("demo", pattern="^[A-Za-z_][A-Za-z0-9_]*$", description="Its name in SQL.")
    type: Literal["hadoop", "jdbc", "rest"] = Field(
        "hadoop",
        description="Type of the catalog: in a directory, a database or a service.",
    )
    uri: str | None = Field(
        None,
        min_length=1,
        description="Database of a `jdbc` catalog, such as `jdbc:postgresql://host/lake`, or "
        "address of a `rest` catalog.",
    )
    warehouse: str | None = Field(
        None,
        min_length=1,
        description="Location of the tables: a directory, or a URI such as `s3a://bucket/lake`; "
        "for a `rest` catalog the name of a warehouse. Default: `warehouse` in `home`.",
    )
    # Excluded from the repr, because they may contain passwords and tokens.
    options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Additional properties of the catalog, such as `jdbc.user` or `token`.",
    )


class FormerArticlesSettings(Section):
    """Former names of options of the two jobs that write news articles."""

    files: str | None = Field(None, min_length=1, description="Use --files or SCRAPED_DATA_PATH.")
    topic: str | None = Field(None, min_length=1, description="Use --input-topic or KAFKA_TOPIC.")
    table: str | None = Field(None, min_length=1, description="Use --table or ICEBERG_TABLE.")
    checkpoint: str | None = Field(
        None, min_length=1, description="Use --checkpoint or CHECKPOINT_LOCATION."
    )


class ArchiveSettings(Section):
    """Topics that are archived in Delta tables."""

    folder: TableFolder | None = Field(
        None,
        description="Directory of the archives, one Delta table per topic. "
        "Default: `archive` in `home`.",
    )
    compact_at_files: int = Field(
        100,
        ge=2,
        description="Number of small files at which `data_synchronization_job` compacts them.",
    )
    small_file_mb: float = Field(
        16.0, gt=0, description="Files of at least this size, in MiB, are not compacted."
    )


class ReplaySettings(Section):
    """Replays of archived records."""

    signing_key: SecretStr | None = Field(
        None, description="Key for signing manifests. Without it, manifests are not signed."
    )
    step_records: int = Field(
        1_000_000,
        gt=0,
        description="Records per step of a replay; it resumes after the last completed step.",
    )
    max_replays: int = Field(
        3, ge=1, description="Records that were replayed this many times are not replayed again."
    )
    transforms: dict[str, str] = Field(
        default_factory=dict,
        description="The transforms of jobs, by job name, as `module:name` or "
        "`path/to/file.py:name`, for `headwater trace --resolve`.",
    )
    max_resolved_records: int = Field(
        10_000,
        gt=0,
        description="Maximum number of records in ranges that `headwater trace --resolve` reads.",
    )
    max_resolve_runs: int = Field(
        200,
        gt=0,
        description="How often `headwater trace --resolve` may run the transform on a part of "
        "the records.",
    )


class QualitySettings(Section):
    """Data quality, measured while rows are written."""

    max_columns: int = Field(
        40,
        ge=0,
        description="Maximum number of columns with statistics; by default the first ones. "
        "Expectations apply to all columns. Each column costs time for every row.",
    )
    distinct_counts: bool = Field(
        True, description="Whether distinct values are estimated, with sketches of 1 KB per column."
    )


class CostSettings(Section):
    """Prices for the cost of a run. If all are zero, only usage is reported."""

    per_core_hour: Decimal = Field(
        Decimal(0), ge=0, description="Price of an hour of task time on one core."
    )
    per_gb_read: Decimal = Field(
        Decimal(0), ge=0, description="Price of 10^9 bytes read from files."
    )
    per_gb_written: Decimal = Field(
        Decimal(0), ge=0, description="Price of 10^9 bytes written to files."
    )
    per_gb_shuffled: Decimal = Field(
        Decimal(0), ge=0, description="Price of 10^9 bytes of shuffle writes."
    )
    currency: str = Field("USD", min_length=1, max_length=16, description="Currency of the prices.")


class TestingSettings(Section):
    """For tests only."""

    fault_points: str = Field(
        "", description="Faults to inject, as `point=action[@count]`, separated by commas."
    )
    bench_share: float = Field(
        1.0, gt=0, le=1, description="Fraction of the size of long benchmarks, for trying them."
    )
