"""What each connector needs in a session besides its jars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    "openlineage": Connector(
        ("io.openlineage.spark.agent.OpenLineageSparkListener",),
        configuration={
            # With its reporter on, the listener throws inside and loses foreachBatch events.
            "spark.openlineage.vendors.iceberg.metricsReporterDisabled": "true"
        },
    ),
}

# One machine has few cores: Delta's 50 snapshot partitions make each commit four times slower.
LOCAL_CONFIGURATION = {"spark.databricks.delta.snapshotPartitions": "2"}


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


def _iceberg_catalog(settings: Settings) -> dict[str, str]:
    """A catalog in a folder, for one machine."""
    catalog = f"spark.sql.catalog.{settings.iceberg.catalog}"
    warehouse = settings.iceberg.warehouse or settings.home_dir / "warehouse"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": f"file://{warehouse.absolute()}",
        # A streaming query writes in a session of its own; a cache would hide that from others.
        f"{catalog}.cache-enabled": "false",
    }


def _connector(name: str) -> Connector:
    if name not in CONNECTORS:
        raise InputError(
            f"unknown connector: {name!r}", hint=f"known: {', '.join(CONNECTOR_NAMES)}"
        )
    return CONNECTORS[name]
