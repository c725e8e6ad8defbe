"""Headwater: streaming pipelines on Kafka and Spark, traceable, ordered and replayable."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.job import LineageJob
    from headwater.replay.transform import Transform
    from headwater.replay.transform import Transform as Logic
    from headwater.spark.source import join_lineage, merge_lineage

__version__ = "0.1.0"

__all__ = ["LineageJob", "Logic", "Transform", "__version__", "join_lineage", "merge_lineage"]

# Imported on first use: most commands do not need Spark, which is slow to import.
_LAZY = {
    "LineageJob": "headwater.job",
    "Transform": "headwater.replay.transform",
    "join_lineage": "headwater.spark.source",
    "merge_lineage": "headwater.spark.source",
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
    if name not in _LAZY:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
