"""The sections of the settings: each key with its default, its bounds and what it is for."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator


class Section(BaseModel):
    """A named group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class PostgresSettings(Section):
    """The local PostgreSQL."""

    port: int = Field(5432, ge=1, le=65535, description="Port of the local PostgreSQL.")


class CatalogSettings(Section):
    """The lineage service and its database."""

    url: str | None = Field(
        None,
        min_length=1,
        description="Where jobs send their lineage, such as `http://marquez:5000`. "
        "Default: the local service.",
    )
    api_key: SecretStr | None = Field(
        None, description="Key or token that jobs send with their lineage, as a bearer."
    )
    database_url: SecretStr | None = Field(
        None,
        description="A PostgreSQL (14 or newer) to use. When set, none is started locally.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that the service listens on. Beyond loopback it asks for API keys "
        "or OIDC tokens.",
    )
    port: int = Field(5000, ge=1, le=65535, description="Port of the service's API.")
    page_port: int = Field(3000, ge=1, le=65535, description="Port of the service's page.")
    require_keys: bool = Field(
        False, description="Whether keys or tokens are asked for on loopback, too."
    )
    tls_certificate: Path | None = Field(
        None, description="Certificate chain (PEM) for HTTPS; goes with `tls_key`."
    )
    tls_key: Path | None = Field(None, description="Private key (PEM) of the certificate.")
    cors_origins: tuple[str, ...] = Field(
        (), description='Origins whose pages may call the API, such as `["https://lineage"]`.'
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Host names by which the service may be called; on loopback without keys "
        "only loopback names are answered.",
    )
    oidc_issuer: str | None = Field(
        None, description="Issuer of OIDC bearer tokens to accept, as in their `iss`."
    )
    oidc_audience: str | None = Field(None, description="What their `aud` must hold.")
    oidc_keys_url: str | None = Field(
        None, description="The issuer's key set (JWKS). Without it the issuer is asked for it."
    )
    oidc_roles_claim: str = Field(
        "roles", description="The claim with the roles `read`, `write` or `admin`."
    )
    max_body_mb: float = Field(
        16.0, gt=0, description="Largest body of a request, unpacked, in MiB; above it 413."
    )
    max_depth: int = Field(
        100, ge=10, le=200, description="Deepest nesting of JSON in a request; above it 413."
    )
    max_batch_events: int = Field(
        10_000, ge=1, description="Most events of one batch; above it 413."
    )
    max_rows: int = Field(
        1000, ge=1, description="Most entries of a list; more are cut with `truncated`."
    )
    max_nodes: int = Field(
        5000, ge=1, description="Most nodes of a graph; more are cut with `truncated`."
    )
    max_queries: int = Field(
        8, ge=1, description="Questions that are answered at once; others wait, then get 429."
    )
    max_connections: int = Field(
        1000, ge=1, description="Connections that are held at once; above it 503."
    )
    most_waiting_events: int = Field(
        2000, ge=1, description="Events that may wait to be stored; above it 429."
    )
    query_seconds: float = Field(
        10.0, gt=0, description="How long one query may take; a graph is cut, others get 429."
    )
    body_seconds: float = Field(
        30.0, gt=0, description="How long a client may take to send its body; then 408."
    )
    most_named: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Datasets and jobs that `/metrics` tells by name; all others are one, `other`.",
    )
    retention_days: float = Field(
        0.0,
        ge=0,
        description="Age at which events and runs are removed; the graph stays. 0: never.",
    )


class AlertsSettings(Section):
    """Alerts: their rules, where messages go, and where they may go."""

    file: Path | None = Field(
        None,
        description="The rules file. Default: `headwater-alerts.yml` in the working folder or in "
        "`home`, if it is there.",
    )
    # Most hold a password or a token: not in a repr.
    channels: dict[str, SecretStr] = Field(
        default_factory=dict,
        repr=False,
        description="Addresses of channels by name, such as `slack://…`, `mailto://…`, "
        "`pagerduty://…`, `https://…` or `bell://`; `HEADWATER_ALERTS__CHANNELS__NAME` sets one.",
    )
    allow_private: tuple[str, ...] = Field(
        (),
        description="Networks to which messages may go although they are not public, such as "
        '`["10.1.0.0/16"]`.',
    )
    interval_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Time between two evaluations of all rules. Failed runs do not wait for it.",
    )
    most_incidents: int = Field(
        50, ge=1, description="Incidents of one alert that may be open at once; others wait."
    )
    send_seconds: float = Field(
        20.0, gt=0, le=300, description="How long sending one message may take."
    )
    give_up_hours: float = Field(
        24.0, gt=0, description="Age at which a message that no one took is given up."
    )

    @field_validator("allow_private")
    @classmethod
    def _networks(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            ipaddress.ip_network(value)
        return values

    @field_validator("channels")
    @classmethod
    def _names_in_lower_case(cls, channels: dict[str, SecretStr]) -> dict[str, SecretStr]:
        # The environment knows no case: a file's names are taken alike.
        return {name.lower(): address for name, address in channels.items()}


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
    warehouse: Path | None = Field(
        None, description="Folder of its tables. Default: `warehouse` in `home`."
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
