"""Lineage of NeuroNews: sessions that report to the catalog, with team and project."""

from __future__ import annotations

from functools import partial

from headwater.collector.metadata import add_lineage_metadata as _add_lineage_metadata
from headwater.collector.session import create_spark_session_with_lineage

add_lineage_metadata = partial(_add_lineage_metadata, team="data-engineering", project="neuronews")

__all__ = ["add_lineage_metadata", "create_spark_session_with_lineage"]
