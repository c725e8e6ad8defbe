"""The sections of the settings: each key with its default, its bounds and what it is for.

Longer ones have a module of their own beside this one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

_LOG = logging.getLogger(__name__)


class Section(BaseModel):
    """A named group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Former names of keys, which keep working with a warning.
    renamed: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _take_former_names(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or cls.renamed.keys().isdisjoint(values):
            return values
        taken = dict(values)
        for former, name in cls.renamed.items():
            if former in taken:
                _LOG.warning("the setting `%s` is deprecated: use `%s`", former, name)
                taken.setdefault(name, taken.pop(former))
                taken.pop(former, None)
        return taken


class KafkaSettings(Section):
    """Which broker to talk to, and how long to wait for it."""

    bootstrap_servers: str | None = Field(
        None,
        min_length=1,
        description="Brokers to use. When set, `headwater up` starts no broker of its own.",
    )
    port: int = Field(9092, ge=1, le=65535, description="Port of the local broker.")
    controller_port: int = Field(
        9093, ge=1, le=65535, description="Port of the local broker's KRaft controller."
    )
    heap_mb: int = Field(256, ge=128, description="Heap of the local broker, in MiB.")
    timeout_seconds: float = Field(
        30.0, gt=0, description="How long one request to Kafka may take before it fails."
    )
    # Passwords of clients are among these: not in a repr.
    client: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Further Kafka client properties, such as `security.protocol`.",
    )

    @property
    def servers(self) -> str:
        """The brokers in use: the configured ones, or the local one."""
        return self.bootstrap_servers or f"localhost:{self.port}"


class PostgresSettings(Section):
    """The local PostgreSQL."""

    port: int = Field(5432, ge=1, le=65535, description="Port of the local PostgreSQL.")


class ServicesSettings(Section):
    """Starting and stopping the local services."""

    start_timeout_seconds: float = Field(
        60.0, gt=0, description="How long a local service may take until it answers."
    )
    stop_timeout_seconds: float = Field(
        20.0, gt=0, description="How long a local service may take to end before it is killed."
    )
    min_free_mb: int = Field(
        512, ge=0, description="Free disk space, in MiB, below which no service is started."
    )


class JvmSettings(Section):
    """Java and the jars."""

    java_home: Path | None = Field(
        None, description="A Java 17 or 21. Without it: the one on the PATH, then the wheel's."
    )
    jars_dir: Path | None = Field(
        None, description="Where downloaded jars are kept. Default: the user's cache folder."
    )
    ivy_settings: Path | None = Field(
        None, description="An Ivy settings file, for a mirror of one's own."
    )
    download_timeout_seconds: float = Field(
        600.0, gt=0, description="How long fetching one group of jars may take."
    )


class SparkSettings(Section):
    """The Spark sessions that Headwater starts. Under `spark-submit` its own settings hold."""

    master: str = Field("local[*]", description="Spark master.")
    driver_memory: str = Field("1g", description="Heap of the driver.")
    java_options: str = Field("", description="Further options of the driver's Java.")
    log_level: str = Field(
        "WARN",
        pattern="^(TRACE|DEBUG|INFO|WARN|ERROR|FATAL|OFF)$",
        description="What Spark prints to stderr.",
    )
    kafka_options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Further properties of Spark's Kafka clients, by Java's names.",
    )
    stop_timeout_seconds: float = Field(
        60.0, gt=0, description="How long a stopping job may take to finish its micro-batch."
    )


class JobSettings(Section):
    """What every job stamps on its records."""

    version: str = Field("v1.0.0", min_length=1, description="Version of the running job.")
    max_value_bytes: int = Field(
        900_000,
        gt=0,
        description="Values longer than this are dead-lettered by reference. Kafka's own limit "
        "for a record with its headers is 1 MB.",
    )
    create_topics: bool = Field(True, description="Whether a job makes its missing topics.")
    drop_headers: list[str] = Field(
        [], description="Names of parents' headers that outputs do not inherit, as a JSON list."
    )


class IndexSettings(Section):
    """The index of edges, which `impact` asks."""

    table: Path | None = Field(
        None, description="Folder of the index, a Delta table. Default: `lineage-index` in `home`."
    )
    tables: list[Path] = Field(
        [],
        description="Folders of Delta or Iceberg tables in which `impact` looks, too, as a JSON "
        "list. Those that jobs of this home have written need not be named.",
    )


class IcebergSettings(Section):
    """The Iceberg catalog of the sessions that Headwater starts."""

    catalog: str = Field("demo", pattern="^[A-Za-z_][A-Za-z0-9_]*$", description="Its name in SQL.")
    type: Literal["hadoop", "jdbc", "rest"] = Field(
        "hadoop",
        description="Where it keeps its tables' names: in a folder, a database, a service.",
    )
    uri: str | None = Field(
        None,
        min_length=1,
        description="Of a `jdbc` catalog its database, such as `jdbc:postgresql://host/lake`; of a "
        "`rest` catalog its address.",
    )
    warehouse: str | None = Field(
        None,
        min_length=1,
        description="Where its tables lie: a folder, or a URI such as `s3a://bucket/lake`. Of a "
        "`rest` catalog a name that it knows. Default: `warehouse` in `home`.",
    )
    # Passwords and tokens are among these: not in a repr.
    options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Further properties of the catalog, such as `jdbc.user` or `token`.",
    )

    @model_validator(mode="after")
    def _needs_its_address(self) -> IcebergSettings:
        if self.type != "hadoop" and self.uri is None:
            raise ValueError(f"a {self.type} catalog needs its address: set `iceberg.uri`")
        return self


class ArticlesSettings(Section):
    """The two jobs that write news articles to an Iceberg table."""

    files: str = Field(
        "data/scraped/latest/*.csv",
        min_length=1,
        description="CSV files that `batch_write_raw_with_lineage` reads.",
    )
    topic: str = Field(
        "articles.raw.v1",
        min_length=1,
        description="Topic that `stream_write_raw_with_lineage` reads.",
    )
    table: str = Field("demo.news.articles_raw", min_length=1, description="Table that both write.")
    checkpoint: str | None = Field(
        None,
        min_length=1,
        description="Checkpoint of the streaming job. Default: below `checkpoints` in `home`.",
    )


class ArchiveSettings(Section):
    """Topics that are kept in Delta tables."""

    folder: Path | None = Field(
        None,
        description="Folder of the archives, one Delta table for each topic. "
        "Default: `archive` in `home`.",
    )
    compact_at_files: int = Field(
        100, ge=2, description="Small files at which `data_synchronization_job` joins them."
    )
    small_file_mb: float = Field(
        16.0, gt=0, description="Size, in MiB, from which on a file is not joined with others."
    )


class ReplaySettings(Section):
    """Replays of archived records."""

    signing_key: SecretStr | None = Field(
        None, description="Key for signing manifests. Without it they are not signed."
    )
    step_records: int = Field(
        1_000_000,
        gt=0,
        description="Records that a replay takes in one step; it resumes behind the last one.",
    )
    max_replays: int = Field(
        3, ge=1, description="Records that were replayed so often are not replayed again."
    )


class TestingSettings(Section):
    """For tests only."""

    fault_points: str = Field(
        "", description="Faults to produce, as `point=action[@count]`, separated by commas."
    )
    bench_share: float = Field(
        1.0, gt=0, le=1, description="Share of a long measurement's size, for trying it."
    )
