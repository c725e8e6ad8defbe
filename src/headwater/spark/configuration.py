"""The configuration of a session: what the user has set, what the connectors need, and how the one
is added without changing the other.

Precedence as in `spark-submit`, lowest first: environment variables, `spark-defaults.conf`,
`--conf`, options such as `--master`. The arguments are those of `PYSPARK_SUBMIT_ARGS`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from headwater.errors import InputError
from headwater.jvm.versions import CONNECTORS as CONNECTOR_NAMES
from headwater.model.local_files import file_uri, local_path
from headwater.settings import Settings


@dataclass(frozen=True)
class Connector:
    """Classes that must be on the class path, and the configuration of the connector."""

    probes: tuple[str, ...]
    extension: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


# Part of the Kafka connector.
OWN_SINK = "dev.headwater.delivery.LineageSink"
# Part of the OpenLineage connector: extends its listener, whose events go to Headwater.
LINEAGE_PLUGIN = "dev.headwater.lineage.LineagePlugin"
OWN_LISTENER = "dev.headwater.lineage.LineageListener"

# Row lineage of plain jobs, as an entry of `spark.sql.extensions`.
ROW_LINEAGE = "dev.headwater.RowLineageExtension"

CONNECTORS: Mapping[str, Connector] = {
    "kafka": Connector(
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider", OWN_SINK),
        # In plans, as Spark's default does for `url`: passwords and keys of Kafka's clients.
        configuration={"spark.sql.redaction.options.regex": "(?i)url|jaas|keystore[.]key"},
    ),
    "delta": Connector(
        ("io.delta.sql.DeltaSparkSessionExtension",),
        "io.delta.sql.DeltaSparkSessionExtension",
        {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    ),
    "iceberg": Connector(
        ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",),
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
    "avro": Connector(("org.apache.spark.sql.avro.AvroDataToCatalyst",)),
    # The JDBC driver of an Iceberg catalog in PostgreSQL.
    "postgresql": Connector(("org.postgresql.Driver",)),
    "openlineage": Connector(
        ("io.openlineage.spark.agent.OpenLineageSparkListener", LINEAGE_PLUGIN),
        configuration={
            # With its metrics reporter the listener throws and loses foreachBatch events.
            "spark.openlineage.vendors.iceberg.metricsReporterDisabled": "true"
        },
    ),
}


def session_configuration(names: Iterable[str], settings: Settings) -> dict[str, str]:
    """Extensions and catalogs of these connectors.

    Raises:
        InputError: an unknown connector.
    """
    names = tuple(names)
    chosen = [_connector(name) for name in names]
    configuration: dict[str, str] = {}
    for connector in chosen:
        configuration.update(connector.configuration)
    extensions = [connector.extension for connector in chosen if connector.extension]
    if extensions:
        configuration["spark.sql.extensions"] = ",".join(extensions)
    if "iceberg" in names:
        configuration.update(_iceberg_catalog(settings))
    return configuration


def connectors_for(names: Iterable[str], settings: Settings) -> tuple[str, ...]:
    """The connectors and those that the settings require: the JDBC driver of the catalog."""
    names = tuple(names)
    uri = settings.iceberg.uri or ""
    if "iceberg" in names and uri.startswith("jdbc:postgresql:"):
        return (*names, "postgresql")
    return names


def _iceberg_catalog(settings: Settings) -> dict[str, str]:
    """The Iceberg catalog under its SQL name."""
    iceberg = settings.iceberg
    catalog = f"spark.sql.catalog.{iceberg.catalog}"
    configuration = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": iceberg.type,
        # A streaming query writes in a cloned session; a cache would hide that from others.
        f"{catalog}.cache-enabled": "false",
    }
    if iceberg.uri is not None:
        configuration[f"{catalog}.uri"] = iceberg.uri
    warehouse = _warehouse(settings)
    if warehouse is not None:
        configuration[f"{catalog}.warehouse"] = warehouse
    return configuration | {f"{catalog}.{key}": value for key, value in iceberg.options.items()}


def _warehouse(settings: Settings) -> str | None:
    warehouse = settings.iceberg.warehouse
    if settings.iceberg.type == "rest":
        # A name that the REST catalog resolves.
        return warehouse
    folder = local_path(warehouse) if warehouse else settings.home_dir / "warehouse"
    if folder is None:
        return warehouse
    return file_uri(folder.expanduser())


def _connector(name: str) -> Connector:
    if name not in CONNECTORS:
        raise InputError(
            f"unknown connector: {name!r}", hint=f"known: {', '.join(CONNECTOR_NAMES)}"
        )
    return CONNECTORS[name]


# Lists: the user's entries stay, and Headwater's follow.
LISTS = frozenset(
    {
        "spark.extraListeners",
        "spark.jars",
        "spark.plugins",
        "spark.sql.extensions",
    }
)
_CATALOG = "spark.sql.catalog."
_DEFAULTS_FILE = "spark-defaults.conf"
_PREFIX = "spark."
_VARIABLES = {"MASTER": "spark.master", "SPARK_DRIVER_MEMORY": "spark.driver.memory"}
_OPTIONS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--jars": "spark.jars",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
_CONF = ("--conf", "-c")
_PROPERTIES_FILE, _WITH_DEFAULTS = "--properties-file", "--load-spark-defaults"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
# The end of a key: the first separator that is not escaped.
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def without_conflicts(added: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    """The part of `added` that `existing` does not set; lists are joined.

    A catalog that the user has configured gets no further properties.
    """
    result: dict[str, str] = {}
    for key, value in added.items():
        if key in LISTS:
            joined = joined_list(existing.get(key), value)
            if joined != existing.get(key):
                result[key] = joined
        elif key not in existing and not _of_configured_catalog(key, existing):
            result[key] = value
    return result


def joined_list(existing: str | None, added: str) -> str:
    """The existing list, followed by those of the added names that it does not have."""
    names = _names(existing or "")
    missing = [name for name in _names(added) if name not in names]
    return ",".join([*([existing] if existing and names else []), *missing])


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _of_configured_catalog(key: str, existing: Mapping[str, str]) -> bool:
    if not key.startswith(_CATALOG):
        return False
    name = key.removeprefix(_CATALOG).partition(".")[0]
    return f"{_CATALOG}{name}" in existing


@contextmanager
def configured(spark: SparkSession, configuration: Mapping[str, str]) -> Iterator[None]:
    """Set configuration for the body and restore it, as the session belongs to the user. A query
    that is started in the body keeps the configuration."""
    previous: dict[str, str | None] = {name: spark.conf.get(name, None) for name in configuration}
    for name, value in configuration.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in previous.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def spark_files_configuration(spark_home: Path) -> dict[str, str]:
    """The configuration in environment variables and files."""
    arguments = _arguments()
    configuration = {
        key: os.environ[name] for name, key in _VARIABLES.items() if os.environ.get(name)
    }
    for file in _files(spark_home, arguments):
        configuration |= _properties(file)
    return configuration


def spark_arguments_configuration() -> dict[str, str]:
    """The configuration in the arguments of `spark-submit`, which takes precedence."""
    arguments = _arguments()
    configuration = {}
    for name, value in _values(arguments):
        key, equals, text = value.partition("=")
        if name in _CONF and equals:
            configuration[key.strip()] = text.strip()
    # Spark prefers an option over `--conf`, in any order.
    return configuration | {
        _OPTIONS[name]: value for name, value in _values(arguments) if name in _OPTIONS
    }


def is_connect_client() -> bool:
    """Whether Spark's builder would connect to a server, or has done so."""
    return is_remote() or bool(os.environ.get("SPARK_REMOTE"))


def java_options_of_spark(options: str) -> str:
    """`options` before those in the user's `SPARK_SUBMIT_OPTS`: Java prefers later ones."""
    return f"{options} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()


def python_of_spark(default: str) -> str:
    """The Python of Spark's workers: the user's, or the default."""
    return os.environ.get("PYSPARK_PYTHON") or default


def _arguments() -> list[str]:
    """One word for each option and value: `--name=value` is split."""
    try:
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    except ValueError:
        # Unbalanced quotes: pyspark, which is called next, reports them.
        return []
    split: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        split += [name, value] if equals and name.startswith("--") else [word]
    return split


def _values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    return pairwise(arguments)


def _files(spark_home: Path, arguments: Sequence[str]) -> list[Path]:
    """The files with properties, in the order in which they are read."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    defaults = folder / _DEFAULTS_FILE
    chosen = [Path(value) for name, value in _values(arguments) if name == _PROPERTIES_FILE]
    if not chosen:
        return [defaults]
    return [*([defaults] if _WITH_DEFAULTS in arguments else []), chosen[-1]]


def _properties(file: Path) -> dict[str, str]:
    """The Spark properties of a file in Java's format; none if it can't be read."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        # Spark, which is started next, reports it.
        return {}
    properties = {}
    for line in _logical_lines(lines):
        match = _KEY.fullmatch(line)
        key, value = match.groups() if match else (line, "")
        if key.startswith(_PREFIX):
            properties[_unescaped(key)] = _unescaped(value).strip()
    return properties


def _logical_lines(lines: Sequence[str]) -> Iterator[str]:
    """Lines without comments; an odd number of backslashes at the end continues a line."""
    begun = ""
    for line in lines:
        text = begun + line.lstrip()
        if not begun and (not text or text[0] in "#!"):
            continue
        trailing = len(text) - len(text.rstrip("\\"))
        if trailing % 2:
            begun = text[:-1]
        else:
            begun = ""
            yield text
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return _ESCAPED.sub(character, text)
