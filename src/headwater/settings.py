"""All settings, in one frozen object. No other module reads the environment.

Later wins: default < `headwater.toml` < the well-known names that other tools use, too
(`KAFKA_BOOTSTRAP_SERVERS`, …) < `HEADWATER_SECTION__KEY` < a flag on the command line.
A name that is not listed here is an error, so that a typing mistake is not silently ignored.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from headwater.errors import SettingError

FILE_NAME = "headwater.toml"
PREFIX = "HEADWATER_"

# Names that the tools around Headwater use already, and where their value goes.
WELL_KNOWN: Mapping[str, tuple[str, str]] = {
    "KAFKA_BOOTSTRAP_SERVERS": ("kafka", "bootstrap_servers"),
    "MARQUEZ_URL": ("catalog", "url"),
    "JAVA_HOME": ("jvm", "java_home"),
}


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

    url: str = Field("http://localhost:5000", description="Where jobs send their lineage.")
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
    retention_days: float = Field(
        0.0,
        ge=0,
        description="Age at which events and runs are removed; the graph stays. 0: never.",
    )


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


class TestingSettings(Section):
    """For tests only."""

    fault_points: str = Field(
        "", description="Faults to produce, as `point=action[@count]`, separated by commas."
    )


class Settings(BaseSettings):
    """The settings of one program. Build it with `load`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    home: Path = Field(
        Path(".headwater"), description="Folder for all state of local services and jobs."
    )
    kafka: KafkaSettings = KafkaSettings()
    postgres: PostgresSettings = PostgresSettings()
    catalog: CatalogSettings = CatalogSettings()
    services: ServicesSettings = ServicesSettings()
    jvm: JvmSettings = JvmSettings()
    spark: SparkSettings = SparkSettings()
    jobs: JobSettings = JobSettings()
    index: IndexSettings = IndexSettings()
    testing: TestingSettings = TestingSettings()

    @field_validator("home")
    @classmethod
    def _home_is_a_folder_of_its_own(cls, home: Path) -> Path:
        # `down --wipe` removes it; an empty value would be the folder that one stands in.
        if home == Path():
            raise ValueError("needs a folder of its own, not the current one")
        return home

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            env_settings,
            _WellKnownNames(settings_cls),
            TomlConfigSettingsSource(settings_cls, Path(FILE_NAME)),
        )

    @property
    def bootstrap_servers(self) -> str:
        """The brokers in use: the user's own, or the local one."""
        return self.kafka.bootstrap_servers or f"localhost:{self.kafka.port}"

    @property
    def home_dir(self) -> Path:
        """The state folder as an absolute path: processes are recognised by it."""
        return self.home.expanduser().resolve()

    @property
    def jars_dir(self) -> Path:
        """Where jars lie; shared by all projects of a user, and not wiped by `down --wipe`."""
        return (self.jvm.jars_dir or _user_cache_dir() / "jars").absolute()


class _WellKnownNames(PydanticBaseSettingsSource):
    """Reads the names of `WELL_KNOWN`; an empty value counts as not set."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, (section, key) in WELL_KNOWN.items():
            value = os.environ.get(name)
            if value:
                found.setdefault(section, {})[key] = value
        return found


def load(**overrides: Any) -> Settings:
    """Read file and environment; `overrides` (flags) win.

    Raises:
        SettingError: a value has the wrong form, or a name is unknown.
    """
    try:
        _refuse_unknown_names(os.environ)
        return Settings(**overrides)
    except ValidationError as error:
        raise _setting_error(error) from None
    except SettingsError as error:
        raise _not_json(error) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{FILE_NAME} is not valid TOML: {error}") from None


def _refuse_unknown_names(environment: Mapping[str, str]) -> None:
    for name in environment:
        if not name.upper().startswith(PREFIX):
            continue
        first, nested, _ = name[len(PREFIX) :].lower().partition("__")
        field = Settings.model_fields.get(first)
        # What lies below a section is looked at with the rest of the section.
        if field is None or (nested and not isinstance(field.default, Section)):
            raise SettingError(
                f"unknown setting: {name}", hint="`headwater settings` lists all of them"
            )


def _not_json(error: SettingsError) -> SettingError:
    # The library tells the section only; the text that it could not read tells the variable.
    text = getattr(error.__cause__, "doc", None)
    names = [name for name in os.environ if name.upper().startswith(PREFIX)]
    found = [name for name in names if os.environ[name] == text]
    return SettingError(
        f"setting {' or '.join(found or [PREFIX + '*'])}: not JSON",
        hint='several keys in one variable are JSON, such as `{"security.protocol": "SSL"}`',
    )


def _setting_error(error: ValidationError) -> SettingError:
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    name = PREFIX + "__".join(path).upper()
    reason = first["msg"].removeprefix("Value error, ")
    return SettingError(
        f"setting {name} (`{'.'.join(path)}` in {FILE_NAME}): {reason}",
        hint="`headwater settings` lists all settings with their defaults",
        setting=name,
    )


def running_under_spark_submit() -> bool:
    """Whether a JVM was started before Python, so that its class path is the user's own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def default_ca_file() -> str | None:
    """The certificates that Python and pip trust on this machine."""
    return os.environ.get("SSL_CERT_FILE") or None


def child_environment(**changes: str) -> dict[str, str]:
    """A copy of the environment for a process that Headwater starts."""
    return {**os.environ, **changes}


@contextmanager
def exported(**changes: str) -> Iterator[None]:
    """Set variables for a library that starts a process of its own, and put them back."""
    environment: MutableMapping[str, str] = os.environ
    before = {name: environment.get(name) for name in changes}
    environment.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value


def _user_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headwater"
