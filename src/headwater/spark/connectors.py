"""The connectors: their classes, extensions and catalogs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import InputError
from headwater.jvm.versions import CONNECTORS as CONNECTOR_NAMES
from headwater.model.local_files import file_uri
from headwater.settings import Settings


@dataclass(frozen=True)
class Connector:
    """Classes that must be on the class path, and the configuration of the connector."""

    probes: tuple[str, ...]
    extension: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


# Part of the Kafka connector.
OWN_SINK = "headwater.delivery.LineageSink"
# Part of the OpenLineage connector: sends the listener's events.
LINEAGE_PLUGIN = "headwater.lineage.LineagePlugin"

CONNECTORS: Mapping[str, Connector] = {
    "kafka": Connector(("org.apache.spark.sql.kafka010.KafkaSourceProvider", OWN_SINK)),
    "delta": Connector(
        ("io.delta.sql.DeltaSparkSessionExtension",),
        "io.delta.sql.DeltaSparkSessionExtension",
        {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    ),
    "iceberg": Connector(
        ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",),
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
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
    if warehouse is not None and "://" in warehouse:
        return warehouse
    folder = Path(warehouse) if warehouse else settings.home_dir / "warehouse"
    return file_uri(folder.expanduser())


def _connector(name: str) -> Connector:
    if name not in CONNECTORS:
        raise InputError(
            f"unknown connector: {name!r}", hint=f"known: {', '.join(CONNECTOR_NAMES)}"
        )
    return CONNECTORS[name]
