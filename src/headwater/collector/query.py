"""Description of a streaming query for lineage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headwater.collector.batch_outputs import BatchOutputs
from headwater.openlineage.events import Dataset, Roles
from headwater.quality import Quality
from headwater.spark.row_lineage import RowCoverage

# Topic, partition, first and last offset.
Gap = tuple[str, int, int, int]


@dataclass(frozen=True)
class QueryDescription:
    """What is reported about a query besides its progress."""

    job_name: str
    job_version: str | None
    checkpoint: Path | str | None
    # Rows whose columns are traced to the inputs; None if the plan is analyzed elsewhere.
    rows: DataFrame | None
    # The first output has the columns of `rows`.
    outputs: Sequence[Dataset]
    roles: Roles = field(default_factory=Roles)
    # Whether the query ends by itself: a normal end is then COMPLETE, otherwise ABORT.
    finite: bool = False
    # Records that were deleted before they could be read; the job appends to it while it runs.
    gaps: list[Gap] = field(default_factory=list)
    # Differences between the checkpoint and the query that this start accepts.
    accepted: list[Mapping[str, str]] = field(default_factory=list)
    # The columns that are written. Default: all.
    columns: Sequence[str] | None = None
    # Struct columns that are reported as one field.
    unnested: Sequence[str] = ()
    # Whether the sink writes files and counts no rows: the metrics of the tasks are used.
    files_only: bool = False
    # Quality checks of the rows.
    quality: Sequence[Quality] = ()
    # Job facets of the application; facets registered for the job itself win.
    job_facets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # What is known of the parents of the rows; None if nothing is, such as without the extension.
    row_lineage: RowCoverage | None = None
    # Further outputs, which are known when a `foreachBatch` has written to them.
    batch_outputs: BatchOutputs | None = None
    # Whether the table that is appended to has rows that this job made from one of these topics,
    # None for any; None if the output is no such table.
    has_rows_of: Callable[[Collection[str] | None], bool] | None = None
