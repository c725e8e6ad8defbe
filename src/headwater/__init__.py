"""Headwater: streaming pipelines on Kafka and Spark, traceable, ordered and replayable.

The names of `__all__`, `headwater.quality` and `headwater.testing` are the public API, described in
docs/reference/python.md. Everything else is internal and may change with any release.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.collector.listener import track_streaming
    from headwater.collector.metadata import add_lineage_metadata
    from headwater.collector.session import (
        create_spark_session_with_lineage,
        finish_lineage,
        spark_session_with_lineage,
    )
    from headwater.collector.streaming import QueryHandle
    from headwater.delivery.dead_letter.columns import parse_json
    from headwater.delivery.dead_letter.listing import DeadLetterFilter, list_dead_letters
    from headwater.delivery.dead_letter.redrive import redrive
    from headwater.errors import HeadwaterError
    from headwater.job import LineageJob
    from headwater.join.fates import verify, why_missing
    from headwater.join.rule import JoinSide
    from headwater.join.watermark_join import WatermarkJoin
    from headwater.kafka.fetch import RecordReader
    from headwater.model.address import Address
    from headwater.model.header import decode as decode_lineage
    from headwater.model.record import JobOutput
    from headwater.openlineage.facets import lineage_facet
    from headwater.openlineage.tables import delta_table, iceberg_table
    from headwater.replay.resolve import trace
    from headwater.replay.transform import Transform
    from headwater.replay.transform import Transform as Logic
    from headwater.settings import Settings
    from headwater.settings import load as load_settings
    from headwater.spark.measures.expectation import Expectation
    from headwater.spark.measures.quality import Quality
    from headwater.spark.measures.run_measures import CostMeter
    from headwater.spark.row_lineage import with_row_lineage
    from headwater.spark.source import (
        join_lineage,
        lineage_of,
        merge_lineage,
        parent_addresses,
    )
    from headwater.storage.index.reader import LineageIndex
    from headwater.tracing.follow import OrderCheck
    from headwater.tracing.impact import impact

__version__ = "0.1.0"

__all__ = [
    "Address",
    "CostMeter",
    "DeadLetterFilter",
    "Expectation",
    "HeadwaterError",
    "JobOutput",
    "JoinSide",
    "LineageIndex",
    "LineageJob",
    "Logic",
    "OrderCheck",
    "Quality",
    "QueryHandle",
    "RecordReader",
    "Settings",
    "Transform",
    "WatermarkJoin",
    "__version__",
    "add_lineage_metadata",
    "create_spark_session_with_lineage",
    "decode_lineage",
    "delta_table",
    "finish_lineage",
    "iceberg_table",
    "impact",
    "join_lineage",
    "lineage_facet",
    "lineage_of",
    "list_dead_letters",
    "load_settings",
    "merge_lineage",
    "parent_addresses",
    "parse_json",
    "redrive",
    "spark_session_with_lineage",
    "trace",
    "track_streaming",
    "verify",
    "why_missing",
    "with_row_lineage",
]

# Imported on first use: most programs do not need Spark, which is slow to import.
_PUBLIC = {
    # Jobs with row lineage.
    "LineageJob": "headwater.job",
    "JoinSide": "headwater.join.rule",
    "QueryHandle": "headwater.collector.streaming",
    "Transform": "headwater.replay.transform",
    "WatermarkJoin": "headwater.join.watermark_join",
    "join_lineage": "headwater.spark.source",
    "lineage_of": "headwater.spark.source",
    "merge_lineage": "headwater.spark.source",
    "parent_addresses": "headwater.spark.source",
    "parse_json": "headwater.delivery.dead_letter.columns",
    "with_row_lineage": "headwater.spark.row_lineage",
    # Dataset lineage of any Spark job.
    "add_lineage_metadata": "headwater.collector.metadata",
    "create_spark_session_with_lineage": "headwater.collector.session",
    "delta_table": "headwater.openlineage.tables",
    "finish_lineage": "headwater.collector.session",
    "iceberg_table": "headwater.openlineage.tables",
    "lineage_facet": "headwater.openlineage.facets",
    "spark_session_with_lineage": "headwater.collector.session",
    "track_streaming": "headwater.collector.listener",
    # Quality and cost.
    "CostMeter": "headwater.spark.measures.run_measures",
    "Expectation": "headwater.spark.measures.expectation",
    "Quality": "headwater.spark.measures.quality",
    # Queries over records.
    "Address": "headwater.model.address",
    "JobOutput": "headwater.model.record",
    "LineageIndex": "headwater.storage.index.reader",
    "OrderCheck": "headwater.tracing.follow",
    "RecordReader": "headwater.kafka.fetch",
    "decode_lineage": "headwater.model.header:decode",
    "impact": "headwater.tracing.impact",
    "trace": "headwater.replay.resolve",
    "verify": "headwater.join.fates",
    "why_missing": "headwater.join.fates",
    # Dead letters.
    "DeadLetterFilter": "headwater.delivery.dead_letter.listing",
    "list_dead_letters": "headwater.delivery.dead_letter.listing",
    "redrive": "headwater.delivery.dead_letter.redrive",
    # Settings and errors.
    "HeadwaterError": "headwater.errors",
    "Settings": "headwater.settings",
    "load_settings": "headwater.settings:load",
}

# Former names, which still work.
_RENAMED = {"Logic": "Transform"}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        warnings.warn(
            f"headwater.{name} is deprecated: use headwater.{_RENAMED[name]}",
            DeprecationWarning,
            stacklevel=2,
        )
        name = _RENAMED[name]
    if name not in _PUBLIC:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
