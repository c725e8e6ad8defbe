"""What tasks have used, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from headwater.openlineage.facets import Facet, own
from headwater.settings import Settings

FACET = "headwater_cost"

_SECONDS_PER_HOUR = 3600
# As clouds count: a decimal GB.
_GB = 10**9
# Of a currency's main unit: a micro-batch costs less than a cent.
_PLACES = Decimal("0.000001")


@dataclass(frozen=True)
class Usage:
    """Sums over tasks, failed ones included; in the order in which the listener tells them."""

    tasks: int = 0
    failed_tasks: int = 0
    core_millis: int = 0
    cpu_nanos: int = 0
    gc_millis: int = 0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    shuffle_bytes_read: int = 0
    shuffle_bytes_written: int = 0
    spilled_bytes: int = 0
    # The most that one task held: no sum.
    peak_task_memory: int = 0

    @classmethod
    def told(cls, values: Sequence[int]) -> Usage:
        """From the listener's numbers."""
        return cls(*values)

    @property
    def core_seconds(self) -> float:
        return self.core_millis / 1000

    @property
    def shuffled_bytes(self) -> int:
        """Written for other tasks; each byte once."""
        return self.shuffle_bytes_written


def money(usage: Usage, settings: Settings) -> Decimal | None:
    """By the table of prices; None where all of them are zero."""
    prices = settings.cost
    parts = (
        (prices.per_core_hour, Decimal(usage.core_millis) / 1000 / _SECONDS_PER_HOUR),
        (prices.per_gb_read, Decimal(usage.bytes_read) / _GB),
        (prices.per_gb_written, Decimal(usage.bytes_written) / _GB),
        (prices.per_gb_shuffled, Decimal(usage.shuffled_bytes) / _GB),
    )
    if not any(price for price, _ in parts):
        return None
    return sum((price * amount for price, amount in parts), Decimal(0)).quantize(_PLACES)


def cost_facet(usage: Usage, settings: Settings) -> Facet:
    """The run facet `headwater_cost`."""
    return own(
        "CostRunFacet",
        "1-0-0",
        tasks=usage.tasks,
        failedTasks=usage.failed_tasks,
        coreSeconds=usage.core_seconds,
        cpuSeconds=round(usage.cpu_nanos / 1e9, 3),
        gcSeconds=usage.gc_millis / 1000,
        bytesRead=usage.bytes_read,
        recordsRead=usage.records_read,
        bytesWritten=usage.bytes_written,
        recordsWritten=usage.records_written,
        shuffleBytesRead=usage.shuffle_bytes_read,
        shuffleBytesWritten=usage.shuffle_bytes_written,
        spilledBytes=usage.spilled_bytes,
        peakTaskMemoryBytes=usage.peak_task_memory,
        money=_money(usage, settings),
    )


def _money(usage: Usage, settings: Settings) -> Facet | None:
    amount = money(usage, settings)
    if amount is None:
        return None
    prices = settings.cost
    # With the prices: what was told stays right when they change.
    return {
        "amount": float(amount),
        "currency": prices.currency,
        "perCoreHour": float(prices.per_core_hour),
        "perGbRead": float(prices.per_gb_read),
        "perGbWritten": float(prices.per_gb_written),
        "perGbShuffled": float(prices.per_gb_shuffled),
    }
