"""Spark: session, connectors, Kafka source and the query runner. Imports pyspark."""

from headwater.spark.query_runner import OnBatch, StopSignal, run_until_stopped
from headwater.spark.session import create_session
from headwater.spark.source import read_topic_stream, read_topics_stream

__all__ = [
    "OnBatch",
    "StopSignal",
    "create_session",
    "read_topic_stream",
    "read_topics_stream",
    "run_until_stopped",
]
