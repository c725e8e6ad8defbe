"""How much of a broker's disk a topic takes, asked of the broker itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headwater.settings import Settings


def bytes_on_disk(topic: str, spark: SparkSession, settings: Settings) -> int:
    """The sum over all replicas; through Kafka's Java client, as librdkafka has no such call."""
    jvm: Any = spark._jvm  # noqa: SLF001
    # py4j walks over lists only.
    items = jvm.java.util.ArrayList
    properties = jvm.java.util.HashMap()
    properties.put("bootstrap.servers", settings.bootstrap_servers)
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
