"""What each connector needs in a session besides its jars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import InputError
from headwater.jvm.versions import CONNECTORS as CONNECTOR_NAMES
from headwater.settings import Settings


@dataclass(frozen=True)
class Connector:
    """Classes that are there when the jars are, and the configuration that goes with it."""

    probes: tuple[str, ...]
    extension: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


# Headwater's own sink comes with the Kafka connector.
OWN_SINK = "headwater.delivery.LineageSink"
# What hands the OpenLineage listener's events over comes with the listener.
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
    # The driver of an Iceberg catalog that is kept in PostgreSQL.
    "postgresql": Connector(("org.postgresql.Driver",)),
    "openlineage": Connector(
        ("io.openlineage.spark.agent.OpenLineageSparkListener", LINEAGE_PLUGIN),
        configuration={
            # With its reporter on, the listener throws inside and loses foreachBatch events.
            "spark.openlineage.vendors.iceberg.metricsReporterDisabled": "true"
        },
    ),
}

# Where everything is on one machine.
LOCAL_CONFIGURATION = {
    # It has few cores: Delta's 50 snapshot partitions make each commit four times slower.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Hadoop starts processes for each file that it makes; this does not, for tables as for
    # checkpoints, which Spark else writes by another way than Hadoop's file systems.
    "spark.hadoop.fs.file.impl": "headwater.spark.LocalFiles",
    "spark.sql.streaming.checkpointFileManagerClass": "headwater.spark.CheckpointFiles",
}


def session_configuration(names: Iterable[str], settings: Settings) -> dict[str, str]:
    """Extensions and catalogs for a set of connectors.

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
    """The connectors, and what the settings need besides: the driver of a catalog's database."""
    names = tuple(names)
    uri = settings.iceberg.uri or ""
    if "iceberg" in names and uri.startswith("jdbc:postgresql:"):
        return (*names, "postgresql")
    return names


def _iceberg_catalog(settings: Settings) -> dict[str, str]:
    """The catalog under its name in SQL; in a folder, unless the settings name another."""
    given = settings.iceberg
    catalog = f"spark.sql.catalog.{given.catalog}"
    configuration = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": given.type,
        # A streaming query writes in a session of its own; a cache would hide that from others.
        f"{catalog}.cache-enabled": "false",
    }
    if given.uri is not None:
        configuration[f"{catalog}.uri"] = given.uri
    warehouse = _warehouse(settings)
    if warehouse is not None:
        configuration[f"{catalog}.warehouse"] = warehouse
    return configuration | {f"{catalog}.{key}": value for key, value in given.options.items()}


def _warehouse(settings: Settings) -> str | None:
    given = settings.iceberg.warehouse
    if settings.iceberg.type == "rest":
        # The service knows where; what is given is a name that it knows.
        return given
    if given is not None and "://" in given:
        return given
    folder = Path(given) if given else settings.home_dir / "warehouse"
    return f"file://{folder.expanduser().absolute()}"


def _connector(name: str) -> Connector:
    if name not in CONNECTORS:
        raise InputError(
            f"unknown connector: {name!r}", hint=f"known: {', '.join(CONNECTOR_NAMES)}"
        )
    return CONNECTORS[name]
