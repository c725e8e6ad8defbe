"""What a job knows of its streaming query, for those who tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headwater.openlineage.events import Dataset
from headwater.openlineage.progress import Roles
from headwater.quality import Quality

# Topic, partition, first and last offset.
Gap = tuple[str, int, int, int]


@dataclass(frozen=True)
class QueryDescription:
    """What is told of a query besides its progress."""

    job_name: str
    job_version: str | None
    checkpoint: Path | str | None
    # Rows whose columns are followed to the inputs; None where the plan is known otherwise.
    rows: DataFrame | None
    # The first has the columns of the rows.
    outputs: Sequence[Dataset]
    roles: Roles = field(default_factory=Roles)
    # Whether it ends by itself: then its end is COMPLETE, and else ABORT.
    finite: bool = False
    # Records that were gone before they could be read; the job adds to them while it runs.
    gaps: list[Gap] = field(default_factory=list)
    # Columns that are written. Default: all.
    columns: Sequence[str] | None = None
    # Columns whose parts are not told of.
    whole: Sequence[str] = ()
    # Whether its sink writes files and counts no rows: those that its tasks write are counted.
    files_only: bool = False
    # What measures the rows.
    quality: Sequence[Quality] = ()
    # What was said of the application that the query belongs to; what was said of the job wins.
    job_facets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
