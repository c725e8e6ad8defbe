"""Lineage of NeuroNews: sessions that report to the catalog, with namespace, team and project."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from headwater import add_lineage_metadata as _add_lineage_metadata
from headwater import create_spark_session_with_lineage as _create_session
from headwater import load_settings
from headwater.jobs.articles import article_settings

add_lineage_metadata = partial(_add_lineage_metadata, team="data-engineering", project="neuronews")


def create_spark_session_with_lineage(*args: Any, **options: Any) -> SparkSession:
    """A session that reports to the namespace `neuronews`, unless another one is set."""
    settings = article_settings(options.pop("settings", None) or load_settings())
    return _create_session(*args, settings=settings, **options)


__all__ = ["add_lineage_metadata", "create_spark_session_with_lineage"]
