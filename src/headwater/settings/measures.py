"""The sections of what is measured beside the rows: quality and cost."""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field

from headwater.settings.sections import Section


class QualitySettings(Section):
    """Data quality, measured while rows are written."""

    max_columns: int = Field(
        40,
        ge=0,
        description="Columns of which counts and bounds are measured, the first ones where a job "
        "names none; expectations hold for all. Each costs time for every row.",
    )
    distinct_counts: bool = Field(
        True, description="Whether distinct values are estimated, by sketches of 1 KB a column."
    )


class CostSettings(Section):
    """Prices, by which the cost of a run is told in money. All zero: usage is told alone."""

    per_core_hour: Decimal = Field(
        Decimal(0), ge=0, description="Price of a core that a task holds for an hour."
    )
    per_gb_read: Decimal = Field(
        Decimal(0), ge=0, description="Price of 10^9 bytes that are read from files."
    )
    per_gb_written: Decimal = Field(
        Decimal(0), ge=0, description="Price of 10^9 bytes that are written to files."
    )
    per_gb_shuffled: Decimal = Field(
        Decimal(0), ge=0, description="Price of 10^9 bytes that tasks write for other tasks."
    )
    currency: str = Field("USD", min_length=1, max_length=16, description="Currency of the prices.")
