"""What the `foreachBatch` of a streaming query writes to.

Spark does not know it when the query starts: each write is a query inside a micro-batch. Java
listens to them (`dev.headwater.lineage.MicroBatchWrites`) and joins the plan of a write with the
plan of the streaming query, so that its columns are traced to the query's sources.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headwater.collector.columns import describe_plan, with_facets
from headwater.collector.sources import topic_dataset
from headwater.openlineage import facets
from headwater.openlineage.events import Dataset, DatasetName, file_location, name_of
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.spark.session import own_class

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoundOutput:
    """An output with its schema and column lineage, and the inputs of its rows."""

    dataset: Dataset
    inputs: list[Dataset]


class BatchOutputs:
    """The outputs of a query's `foreachBatch`, as its micro-batches write them."""

    def __init__(self, spark: SparkSession, run_id: str, plan: Any, seconds: float) -> None:
        """
        Args:
            plan: the plan of the streaming query in the JVM.
            seconds: time limit for the column lineage of an output; 0 disables it.

        Raises:
            NotInstalledError: Headwater's jar is not on Spark's class path.
        """
        context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
        self._writes = own_class("lineage.MicroBatchWrites").of(context, run_id, plan)
        self._seconds = seconds

    def take(self) -> list[FoundOutput]:
        """The outputs that were found since the last call; never raises."""
        try:
            return [each for write in self._writes.take() for each in self._outputs(write)]
        except Exception as error:
            # The JVM may have exited.
            _LOG.warning("outputs of foreachBatch are not reported: %s", type(error).__name__)
            return []

    def close(self) -> None:
        with suppress(Exception):  # The JVM may have exited.
            self._writes.close()

    def _outputs(self, write: Any) -> list[FoundOutput]:
        target = json.loads(write.target())
        dataset = _dataset(target)
        if dataset is None:
            return []
        rows = write.rows()
        if rows is None:
            return [FoundOutput(dataset, [])]
        description = describe_plan(rows, seconds=self._seconds)
        inputs, found = description.inputs, description.output_facets
        if target["merged"]:
            # A merge reads the table that it changes, which is not an input. Its rows have
            # further columns than the table.
            inputs = [each for each in inputs if name_of(each) != name_of(dataset)]
            found = _without_source(found, name_of(dataset))
        return [FoundOutput(with_facets(dataset, found), inputs)]


def _dataset(target: Mapping[str, Any]) -> Dataset | None:
    """The dataset of an output; None if it has no name."""
    if "topic" in target:
        return topic_dataset(target["servers"], target["topic"])
    provider, location = target["provider"], target["location"]
    if provider == "iceberg":
        return iceberg_table(target["name"], location)
    if location is None:
        return None
    return delta_table(location) if provider == "delta" else file_location(location).dataset()


def _without_source(
    output: Mapping[str, facets.Facet], table: DatasetName
) -> dict[str, facets.Facet]:
    """Column lineage without the columns of this table."""
    if "columnLineage" not in output:
        return {}

    def kept(fields: Any) -> list[Any]:
        return [each for each in fields if name_of(each) != table]

    columns = output["columnLineage"]
    fields = {name: kept(each["inputFields"]) for name, each in columns["fields"].items()}
    listed = {name: {"inputFields": each} for name, each in fields.items() if each}
    return {"columnLineage": facets.column_lineage(listed, kept(columns.get("dataset") or ()))}
