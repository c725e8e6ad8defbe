"""All settings, in one frozen object. No other module reads the environment, except
`spark/configuration.py` for Spark's own variables.

Precedence, lowest first: default, OpenLineage's variables (`OPENLINEAGE_URL`, …), `headwater.toml`,
well-known variables of other tools (`KAFKA_BOOTSTRAP_SERVERS`, …), `HEADWATER_SECTION__KEY`,
command-line options. An unknown name is an error, so that typos are not silently ignored.
"""

from __future__ import annotations

import json
import logging
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from headwater.errors import SettingError
from headwater.settings import command_line, fault_points
from headwater.settings.alerts import AlertsSettings
from headwater.settings.catalog import CatalogSettings
from headwater.settings.kafka import PORT_STEP, SECURITY_KEYS, KafkaSettings
from headwater.settings.kafka_security import check_security
from headwater.settings.kubernetes import is_of_kubernetes
from headwater.settings.lineage import LineageSettings
from headwater.settings.openlineage import openlineage_defaults
from headwater.settings.paths import LocalPath
from headwater.settings.sections import (
    ArchiveSettings,
    CostSettings,
    FormerArticlesSettings,
    IcebergSettings,
    IndexSettings,
    JobSettings,
    JvmSettings,
    PostgresSettings,
    QualitySettings,
    ReplaySettings,
    Section,
    ServicesSettings,
    SparkSettings,
    TestingSettings,
)

_LOG = logging.getLogger(__name__)

FILE_NAME = "headwater.toml"
RULES_FILE_NAME = "headwater-alerts.yml"
PREFIX = "HEADWATER_"

# Variables that other tools use, and the settings that they set.
WELL_KNOWN: Mapping[str, tuple[str, str]] = {
    "KAFKA_BOOTSTRAP_SERVERS": ("kafka", "bootstrap_servers"),
    "MARQUEZ_URL": ("catalog", "url"),
    "MARQUEZ_API_KEY": ("catalog", "api_key"),
    "OPENLINEAGE_NAMESPACE": ("lineage", "namespace"),
    "OPENLINEAGE_PARENT_JOB": ("lineage", "parent_job"),
    "JAVA_HOME": ("jvm", "java_home"),
    "SPARK_HOME": ("jvm", "spark_home"),
}


class Settings(BaseSettings):
    """The settings of one program. Create it with `load`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
    )

    home: LocalPath = Field(
        Path(".headwater"), description="Directory of all state of local services and jobs."
    )
    kafka: KafkaSettings = KafkaSettings()
    postgres: PostgresSettings = PostgresSettings()
    catalog: CatalogSettings = CatalogSettings()
    alerts: AlertsSettings = AlertsSettings()
    services: ServicesSettings = ServicesSettings()
    jvm: JvmSettings = JvmSettings()
    spark: SparkSettings = SparkSettings()
    jobs: JobSettings = JobSettings()
    index: IndexSettings = IndexSettings()
    iceberg: IcebergSettings = IcebergSettings()
    archive: ArchiveSettings = ArchiveSettings()
    replay: ReplaySettings = ReplaySettings()
    lineage: LineageSettings = LineageSettings()
    quality: QualitySettings = QualitySettings()
    cost: CostSettings = CostSettings()
    testing: TestingSettings = TestingSettings()
    # Excluded from lists of settings.
    articles: FormerArticlesSettings = Field(FormerArticlesSettings(), exclude=True)

    @model_validator(mode="after")
    def _share_kafka_options(self) -> Self:
        """Clients of Kafka get the section `kafka` alone."""
        options = self.spark.kafka_options
        if options != self.kafka.java_client:
            kafka = self.kafka.model_copy(update={"java_client": dict(options)})
            self.__dict__["kafka"] = kafka
        if is_secured(self.kafka):
            check_security(self.kafka)
        return self

    @field_validator("home")
    @classmethod
    def _check_home(cls, home: Path) -> Path:
        # `down --wipe` deletes it; an empty value would be the working directory.
        if home == Path():
            raise ValueError("must not be the working directory")
        return home

    @field_validator("iceberg")
    @classmethod
    def _check_iceberg(cls, iceberg: IcebergSettings) -> IcebergSettings:
        if iceberg.type != "hadoop" and iceberg.uri is None:
            raise ValueError(f"a {iceberg.type} catalog requires `iceberg.uri`")
        return iceberg

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
            _CurrentNames(init_settings),
            _CurrentNames(env_settings),
            _WellKnownNames(settings_cls),
            _CurrentNames(TomlConfigSettingsSource(settings_cls, Path(FILE_NAME))),
            _OpenLineageDefaults(settings_cls),
        )

    @property
    def bootstrap_servers(self) -> str:
        """The brokers in use: the configured ones, or the local ones."""
        return broker_addresses(self.kafka)

    @property
    def catalog_url(self) -> str:
        """The lineage service in use: the configured one, or the local one."""
        scheme = "https" if self.catalog.tls_certificate else "http"
        return self.catalog.url or f"{scheme}://localhost:{self.catalog.port}"

    def lineage_enabled_for(self, job_name: str) -> bool:
        """Whether a job of this name emits lineage events."""
        disabled = self.lineage.disabled_jobs
        return self.lineage.enabled and not any(fnmatchcase(job_name, each) for each in disabled)

    @property
    def spool_dir(self) -> Path:
        """The directory of events that are not delivered yet."""
        return (self.lineage.spool or self.home_dir / "spool").expanduser().absolute()

    @property
    def home_dir(self) -> Path:
        """The state directory as an absolute path, which identifies local processes."""
        return self.home.expanduser().resolve()

    @property
    def jars_dir(self) -> Path:
        """The directory of jars; shared by all projects of a user, and kept by `down --wipe`."""
        return (self.jvm.jars_dir or _user_cache_dir() / "jars").absolute()


class _CurrentNames(PydanticBaseSettingsSource):
    """Replaces former names of keys in another source.

    This happens before sources are merged: afterwards the default of the current name, or its
    value from a source of lower precedence, would win.
    """

    def __init__(self, source: PydanticBaseSettingsSource) -> None:
        super().__init__(source.settings_cls)
        self._source = source

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self._source.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        values = dict(self._source())
        for name, field in self.settings_cls.model_fields.items():
            if isinstance(field.default, Section) and isinstance(values.get(name), Mapping):
                values[name] = _with_current_names(name, values[name], field.default.renamed)
        return values


def _with_current_names(
    section: str, values: Mapping[str, Any], renamed: Mapping[str, str]
) -> dict[str, Any]:
    current = dict(values)
    for former, name in renamed.items():
        if former in current:
            _LOG.warning(
                "setting `%s.%s` is deprecated: use `%s.%s`", section, former, section, name
            )
            value = current.pop(former)
            # From the environment: only current names of lists are decoded by the library. Invalid
            # JSON is left to the validation, which names the setting.
            if isinstance(value, str) and value.startswith("["):
                with suppress(ValueError):
                    value = json.loads(value)
            current.setdefault(name, value)
    return current


class _WellKnownNames(PydanticBaseSettingsSource):
    """Reads the names of `WELL_KNOWN`; an empty value counts as not set."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, (section, key) in WELL_KNOWN.items():
            value = os.environ.get(name)
            if value:
                values.setdefault(section, {})[key] = value
        return values


class _OpenLineageDefaults(PydanticBaseSettingsSource):
    """Reads OpenLineage's own variables and configuration file."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        if not any(name.startswith("OPENLINEAGE_") for name in os.environ):
            return {}
        return openlineage_defaults(os.environ)


def broker_addresses(kafka: KafkaSettings) -> str:
    """The brokers in use: the configured ones, or the local ones."""
    ports = (kafka.port + PORT_STEP * node for node in range(kafka.brokers or 1))
    return kafka.bootstrap_servers or ",".join(f"localhost:{port}" for port in ports)


def is_secured(kafka: KafkaSettings) -> bool:
    """Whether properties of clients may have to be derived: see `kafka_security`."""
    given = (getattr(kafka, key) is not None for key in SECURITY_KEYS)
    return bool(kafka.client or kafka.java_client) or any(given)


def load(**overrides: Any) -> Settings:
    """Read the file and the environment; `overrides` take precedence, before the command line.

    Raises:
        SettingError: a value is invalid, or a name is unknown.
    """
    try:
        _reject_unknown_names(os.environ)
        return Settings(**_merged(command_line.current.overrides, overrides))
    except ValidationError as error:
        raise _setting_error(error) from None
    except SettingsError as error:
        raise _not_json(error) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{FILE_NAME} is not valid TOML: {error}") from None


def _merged(lower: Mapping[str, Any], higher: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**lower, **higher}
    for name in lower.keys() & higher.keys():
        if isinstance(lower[name], Mapping) and isinstance(higher[name], Mapping):
            merged[name] = {**lower[name], **higher[name]}
    return merged


def _reject_unknown_names(environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        if not name.upper().startswith(PREFIX):
            continue
        first, nested, _ = name[len(PREFIX) :].lower().partition("__")
        field = Settings.model_fields.get(first)
        # Keys of a section are checked with the section.
        unknown = field is None or (nested and not isinstance(field.default, Section))
        if unknown and not is_of_kubernetes(name, value):
            raise SettingError(
                f"unknown setting: {name}", hint="`headwater settings` lists all settings"
            )


def _not_json(error: SettingsError) -> SettingError:
    # pydantic-settings names only the section, so the variable is found by its value.
    text = getattr(error.__cause__, "doc", None)
    names = [name for name in os.environ if name.upper().startswith(PREFIX)]
    matching = [name for name in names if os.environ[name] == text]
    return SettingError(
        f"setting {' or '.join(matching or [PREFIX + '*'])}: not JSON",
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


def arm_fault_points(settings: Settings) -> None:
    """Arm the faults of `testing.fault_points`, which only tests set; disarm earlier ones."""
    if settings.testing.fault_points or fault_points.current is not None:
        fault_points.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")


def rules_file(settings: Settings) -> Path | None:
    """The alert rules file: the configured one, or an existing one in a default directory."""
    if settings.alerts.file is not None:
        return settings.alerts.file.expanduser().absolute()
    for directory in (Path.cwd(), settings.home_dir):
        if (directory / RULES_FILE_NAME).is_file():
            return directory / RULES_FILE_NAME
    return None


def running_under_spark_submit() -> bool:
    """Whether `spark-submit` started this process, so that the user controls the class path."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def default_ca_file() -> str | None:
    """The CA certificates that Python and pip use on this machine."""
    return os.environ.get("SSL_CERT_FILE") or None


def variable(name: str) -> str | None:
    """A variable that only some jobs read; an empty value counts as not set."""
    return os.environ.get(name) or None


def child_environment(**changes: str) -> dict[str, str]:
    """A copy of the environment for a process that Headwater starts."""
    return {**os.environ, **changes}


def bare_environment() -> dict[str, str]:
    """The minimal environment of a process: no proxies, no secrets, no settings."""
    names = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "SSL_CERT_FILE", "SYSTEMROOT", "VIRTUAL_ENV")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    if "SSL_CERT_FILE" in environment:
        environment["REQUESTS_CA_BUNDLE"] = environment["SSL_CERT_FILE"]
    # Passwords in the user's netrc file must not be sent to the targets of alerts.
    return {**environment, "NETRC": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}


def class_path_of_spark(jars: Iterable[str]) -> str:
    """The user's `SPARK_DIST_CLASSPATH`, followed by `jars`."""
    existing = os.environ.get("SPARK_DIST_CLASSPATH")
    return os.pathsep.join([*([existing] if existing else []), *jars])


@contextmanager
def exported(**changes: str) -> Iterator[None]:
    """Set variables for a library that starts a process, and restore them."""
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
