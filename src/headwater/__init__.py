"""Headwater: streaming pipelines on Kafka and Spark, traceable, ordered and replayable."""

__version__ = "0.1.0"

__all__ = ["__version__"]
