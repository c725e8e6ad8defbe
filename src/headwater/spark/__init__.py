"""Spark: the session, its connectors, the Kafka source, and running a query until it is told
to stop. Importing this package imports pyspark."""

from headwater.spark.kafka_source import read_topic_stream, read_topics_stream
from headwater.spark.query_runner import OnBatch, StopSignal, run_until_stopped
from headwater.spark.session import create_session

__all__ = [
    "OnBatch",
    "StopSignal",
    "create_session",
    "read_topic_stream",
    "read_topics_stream",
    "run_until_stopped",
]
