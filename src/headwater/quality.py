"""Data quality, measured while rows are written: column counts and bounds, and expectations.

    from headwater.quality import Quality, in_range, not_null

    articles = Quality("articles", [not_null("id"), in_range("price", 0, None, severity="fail")])
    articles.measure(rows).write.format("delta").save(folder)
    articles.add_facets(run, table)

Nothing is read twice: Spark's `observe` measures in the pass that writes. `Quality` and the two
context managers need pyspark; the other names do not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headwater.spark.measures.expectation import (
    Expectation,
    in_range,
    in_set,
    matches,
    not_null,
    satisfies,
)
from headwater.spark.measures.quality_report import Report

if TYPE_CHECKING:
    from headwater.spark.measures.quality import Quality, enforced, read_once

__all__ = [
    "Expectation",
    "Quality",
    "Report",
    "enforced",
    "in_range",
    "in_set",
    "matches",
    "not_null",
    "read_once",
    "satisfies",
]

_LAZY = ("Quality", "enforced", "read_once")


def __getattr__(name: str) -> Any:
    # Expectations and reports must be usable without Spark.
    if name not in _LAZY:
        raise AttributeError(f"module 'headwater.quality' has no attribute {name!r}")
    return getattr(importlib.import_module("headwater.spark.measures.quality"), name)
