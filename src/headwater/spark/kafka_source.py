"""A topic as a stream of rows."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headwater.settings import Settings

# Measured on 400-byte records: Spark's defaults fetch so little at a time that the source, not
# the job, sets the pace. 8 MB a partition keeps both ends busy without holding much memory.
FETCH = {
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.max.poll.records": "5000",
}


def client_options(settings: Settings) -> dict[str, str]:
    """The user's properties for Spark's Kafka clients, such as those of TLS and SASL."""
    return {f"kafka.{name}": value for name, value in settings.spark.kafka_options.items()}


def read_topic_stream(
    spark: SparkSession,
    topic: str,
    settings: Settings,
    *,
    starting_offsets: str = "earliest",
    **options: str,
) -> DataFrame:
    """Rows of a topic with `key, value, topic, partition, offset, timestamp, headers`.

    Offsets that the broker no longer has end the query with an error: a gap is never silent.
    """
    return read_topics_stream(
        spark,
        settings,
        subscribe=topic,
        startingOffsets=starting_offsets,
        failOnDataLoss="true",
        **options,
    )


def read_topics_stream(spark: SparkSession, settings: Settings, **options: str) -> DataFrame:
    """The same for several topics: `options` are those of Spark's Kafka source."""
    given = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "includeHeaders": "true",
        # What a strict job has written and not committed is void.
        "kafka.isolation.level": "read_committed",
        **FETCH,
        **options,
        **client_options(settings),
    }
    return spark.readStream.format("kafka").options(**given).load()
