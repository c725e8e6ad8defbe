"""The size of a topic on the brokers' disks."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

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
