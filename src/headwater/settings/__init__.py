"""All settings, in one frozen object. No other module reads the environment.

Later wins: default < `headwater.toml` < the well-known names that other tools use, too
(`KAFKA_BOOTSTRAP_SERVERS`, …) < `HEADWATER_SECTION__KEY` < a flag on the command line.
A name that is in no section is an error, so that a typing mistake is not silently ignored.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from headwater.errors import SettingError
from headwater.settings.alerts import AlertsSettings
from headwater.settings.catalog import CatalogSettings
from headwater.settings.lineage import LineageSettings
from headwater.settings.measures import CostSettings, QualitySettings
from headwater.settings.sections import (
    ArchiveSettings,
    ArticlesSettings,
    IcebergSettings,
    IndexSettings,
    JobSettings,
    JvmSettings,
    KafkaSettings,
    PostgresSettings,
    ReplaySettings,
    Section,
    ServicesSettings,
    SparkSettings,
    TestingSettings,
)

FILE_NAME = "headwater.toml"
RULES_FILE_NAME = "headwater-alerts.yml"
PREFIX = "HEADWATER_"

# Names that the tools around Headwater use already, and where their value goes.
WELL_KNOWN: Mapping[str, tuple[str, str]] = {
    "KAFKA_BOOTSTRAP_SERVERS": ("kafka", "bootstrap_servers"),
    "MARQUEZ_URL": ("catalog", "url"),
    "MARQUEZ_API_KEY": ("catalog", "api_key"),
    "OPENLINEAGE_NAMESPACE": ("lineage", "namespace"),
    "OPENLINEAGE_PARENT_JOB": ("lineage", "parent_job"),
    "ENVIRONMENT": ("lineage", "environment"),
    "JAVA_HOME": ("jvm", "java_home"),
    "SCRAPED_DATA_PATH": ("articles", "files"),
    "KAFKA_TOPIC": ("articles", "topic"),
    "ICEBERG_TABLE": ("articles", "table"),
    "CHECKPOINT_LOCATION": ("articles", "checkpoint"),
}


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
    alerts: AlertsSettings = AlertsSettings()
    services: ServicesSettings = ServicesSettings()
    jvm: JvmSettings = JvmSettings()
    spark: SparkSettings = SparkSettings()
    jobs: JobSettings = JobSettings()
    index: IndexSettings = IndexSettings()
    iceberg: IcebergSettings = IcebergSettings()
    articles: ArticlesSettings = ArticlesSettings()
    archive: ArchiveSettings = ArchiveSettings()
    replay: ReplaySettings = ReplaySettings()
    lineage: LineageSettings = LineageSettings()
    quality: QualitySettings = QualitySettings()
    cost: CostSettings = CostSettings()
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
        return self.kafka.servers

    @property
    def catalog_url(self) -> str:
        """Where lineage goes: the user's own service, or the local one."""
        scheme = "https" if self.catalog.tls_certificate else "http"
        return self.catalog.url or f"{scheme}://localhost:{self.catalog.port}"

    def lineage_enabled_for(self, job_name: str) -> bool:
        """Whether a job of this name emits lineage events."""
        off = self.lineage.disabled_jobs
        return self.lineage.enabled and not any(fnmatchcase(job_name, each) for each in off)

    @property
    def spool_dir(self) -> Path:
        """Where events wait until they are delivered."""
        return (self.lineage.spool or self.home_dir / "spool").expanduser().absolute()

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


def rules_file(settings: Settings) -> Path | None:
    """The rules file of alerts: the one that is set, or one that lies where it is looked for."""
    if settings.alerts.file is not None:
        return settings.alerts.file.expanduser().absolute()
    for folder in (Path.cwd(), settings.home_dir):
        if (folder / RULES_FILE_NAME).is_file():
            return folder / RULES_FILE_NAME
    return None


def running_under_spark_submit() -> bool:
    """Whether a JVM was started before Python, so that its class path is the user's own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def default_ca_file() -> str | None:
    """The certificates that Python and pip trust on this machine."""
    return os.environ.get("SSL_CERT_FILE") or None


def child_environment(**changes: str) -> dict[str, str]:
    """A copy of the environment for a process that Headwater starts."""
    return {**os.environ, **changes}


def bare_environment() -> dict[str, str]:
    """What a process needs to run and to trust certificates; no proxy, no secret, no setting."""
    kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "SSL_CERT_FILE", "SYSTEMROOT", "VIRTUAL_ENV")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    if "SSL_CERT_FILE" in found:
        found["REQUESTS_CA_BUNDLE"] = found["SSL_CERT_FILE"]
    # Passwords that lie in the user's home are not for targets of alerts.
    return {**found, "NETRC": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}


def class_path_of_spark(jars: Iterable[str]) -> str:
    """These behind what the user has put behind Spark's own jars."""
    given = os.environ.get("SPARK_DIST_CLASSPATH")
    return os.pathsep.join([*([given] if given else []), *jars])


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
