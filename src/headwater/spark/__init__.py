"""Spark: the session, its connectors, the Kafka source, and running a query until it is told
to stop. Importing this package imports pyspark."""

from headwater.spark.kafka_source import read_topic_stream, read_topics_stream
from headwater.spark.lifecycle import OnBatch, StopSignal, run_until_stopped
from headwater.spark.lineage.metadata import add_lineage_metadata
from headwater.spark.lineage.session import create_spark_session_with_lineage, finish_lineage
from headwater.spark.session import create_session

__all__ = [
    "OnBatch",
    "StopSignal",
    "add_lineage_metadata",
    "create_session",
    "create_spark_session_with_lineage",
    "finish_lineage",
    "read_topic_stream",
    "read_topics_stream",
    "run_until_stopped",
]
