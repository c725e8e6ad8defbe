"""Visits with a score that a function in Python computes.

It passes the column `lineage` on: without, the parents would only be known as ranges of offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd
from pyspark.sql import DataFrame

from headwater import LineageJob


def score(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(value=frame["value"].str.len().astype(str))


def scored(visits: DataFrame) -> DataFrame:
    rows = visits.select("key", visits.value.cast("string").alias("value"), "lineage")
    return rows.mapInPandas(score, rows.schema)


if __name__ == "__main__":
    with LineageJob("visit_scores", version="1.0.0") as job:
        job.write(scored(job.read("visits")), "visit-scores", trigger={"availableNow": True})
