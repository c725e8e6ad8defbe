"""What a run costs: cores, bytes and memory of its tasks, and money by a table of prices.

    from headwater.cost import CostMeter

    meter = CostMeter(spark, run.run_id, settings)
    with meter.counting():
        rows.write.format("delta").save(folder)
    meter.tell(run)

`CostMeter` needs pyspark; usage and prices are plain values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.cost.usage import Usage, money

if TYPE_CHECKING:
    from headwater.cost.meter import CostMeter

__all__ = ["CostMeter", "Usage", "money"]


def __getattr__(name: str) -> Any:
    if name != "CostMeter":
        raise AttributeError(f"module 'headwater.cost' has no attribute {name!r}")
    from headwater.cost.meter import CostMeter

    return CostMeter
