"""The size of a topic: on the brokers' disks, and in its records."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.settings import Settings
from headwater.spark.source import client_properties


def bytes_on_disk(topic: str, spark: SparkSession, settings: Settings) -> int:
    """The sum over all replicas. Uses Kafka's Java client: librdkafka has no such call."""
    jvm: Any = spark._jvm  # noqa: SLF001
    # py4j can iterate over lists only.
    items = jvm.java.util.ArrayList
    properties = jvm.java.util.HashMap()
    properties.put("bootstrap.servers", settings.bootstrap_servers)
    for name, value in client_properties(settings).items():
        properties.put(name, value)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        brokers = jvm.java.util.ArrayList()
        for node in items(admin.describeCluster().nodes().get()):
            brokers.add(node.id())
        sizes = 0
        for broker in items(admin.describeLogDirs(brokers).allDescriptions().get().entrySet()):
            for folder in items(broker.getValue().entrySet()):
                for replica in items(folder.getValue().replicaInfos().entrySet()):
                    if replica.getKey().topic() == topic:
                        sizes += int(replica.getValue().size())
        return sizes
    finally:
        admin.close()


def bytes_of_records(topic: str, spark: SparkSession, settings: Settings) -> int:
    """The sum over keys, values and headers with their names, not compressed."""
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in client_properties(settings).items()},
        "subscribe": topic,
        "includeHeaders": "true",
    }
    records = spark.read.format("kafka").options(**options).load()
    headers = "aggregate(headers, 0, (sum, h) -> sum + length(h.key) + ifnull(length(h.value), 0))"
    parts = ("length(key)", "length(value)", headers)
    size = F.expr(" + ".join(f"ifnull({part}, 0)" for part in parts))
    (row,) = records.select(F.sum(size.cast("bigint")).alias("bytes")).collect()
    return int(row["bytes"] or 0)
