"""Describes a query from its plan: the input datasets and the column lineage of its output."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from headwater.collector.columns import (
    PlanColumns,
    input_schemas,
    lineage_by_field,
    schema_field,
)
from headwater.collector.sources import LeafDatasets, kafka_servers, leaf_datasets
from headwater.errors import NotInstalledError
from headwater.openlineage import facets
from headwater.openlineage.events import Dataset, name_of
from headwater.spark.own_class import own_class

# The facet of a table with more columns could be larger than catalogs accept.
_MAX_COLUMNS = 2000


@dataclass
class Description:
    """The inputs of a plan and its column lineage."""

    inputs: list[Dataset] = field(default_factory=list)
    # Facets of an output with all columns of the plan; empty without column lineage.
    output_facets: dict[str, facets.Facet] = field(default_factory=dict)
    # Steps whose code Spark can't analyze.
    opaque: tuple[str, ...] = ()
    # Why there is no column lineage.
    trouble: str | None = None
    # Of the Kafka sources, if all are of one cluster: for topics that are discovered later.
    bootstrap_servers: str | None = None


def describe(
    rows: DataFrame,
    *,
    columns: Sequence[str] | None = None,
    hidden: Iterable[str] = (),
    unnested: Iterable[str] = (),
    seconds: float = 2.0,
) -> Description:
    """Analyze the plan of rows; never raises.

    Args:
        columns: the columns that are written. Default: all.
        hidden: topics that are not reported.
        unnested: struct columns that are reported as one field.
        seconds: time limit for the column lineage; 0 disables it.
    """
    try:
        plan: Any = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    except Exception as error:
        return Description(trouble=f"{type(error).__name__}: {error}")
    return describe_plan(plan, columns=columns, hidden=hidden, unnested=unnested, seconds=seconds)


def describe_plan(
    plan: Any,
    *,
    columns: Sequence[str] | None = None,
    hidden: Iterable[str] = (),
    unnested: Iterable[str] = (),
    seconds: float = 2.0,
) -> Description:
    """As `describe`, for a plan in the JVM."""
    description = Description()
    try:
        leaves = leaf_datasets(plan, hidden)
        description.inputs = _distinct(leaves)
        description.bootstrap_servers = kafka_servers(plan)
        if seconds <= 0:
            description.trouble = "lineage.analysis_seconds is 0"
            return description
        analysis = _ColumnAnalysis(plan, seconds)
        if analysis.columns is None:
            description.trouble = analysis.trouble
        else:
            _add_columns(description, analysis.columns, leaves, columns, frozenset(unnested))
    except Exception as error:
        # A plan of an unknown form: keep what is known so far.
        description.trouble = f"{type(error).__name__}: {error}"
    return description


class _ColumnAnalysis:
    """Traces the columns in another thread and waits for it at most `seconds`."""

    def __init__(self, plan: Any, seconds: float) -> None:
        self.columns: PlanColumns | None = None
        self.trouble: str | None = f"the analysis of the plan took longer than {seconds:g} s"
        thread = threading.Thread(target=self._run, args=(plan,), daemon=True)
        thread.start()
        thread.join(seconds)

    def _run(self, plan: Any) -> None:
        try:
            self.columns = plan_columns(plan)
        except NotInstalledError as error:
            self.trouble = f"{error}: {error.hint}"
        except Exception as error:
            # Such as a class of another Spark version.
            self.trouble = f"{type(error).__name__}: {error}"


def plan_columns(plan: Any) -> PlanColumns:
    """The column lineage of a plan in the JVM.

    Raises:
        NotInstalledError: Headwater's jar is not on Spark's class path.
    """
    columns: PlanColumns = json.loads(own_class("columns.ColumnLineage").json(plan))
    return columns


def _distinct(leaves: LeafDatasets) -> list[Dataset]:
    by_name = {(each["namespace"], each["name"]): each for leaf in leaves for each in leaf}
    return list(by_name.values())


def _add_columns(
    description: Description,
    plan: PlanColumns,
    leaves: LeafDatasets,
    columns: Sequence[str] | None,
    unnested: frozenset[str],
) -> None:
    written = [each for each in plan["columns"] if columns is None or each["name"] in columns]
    names = [[name_of(each) for each in leaf] for leaf in leaves]
    lineage = lineage_by_field(plan, written, names, unnested)
    if len(lineage["fields"]) > _MAX_COLUMNS:
        count = len(lineage["fields"])
        description.trouble = f"{count} columns, at most {_MAX_COLUMNS} are reported"
        return
    schema = [
        schema_field(each["name"], each["value"], each["name"] in unnested) for each in written
    ]
    description.output_facets = {"schema": facets.schema(schema), "columnLineage": lineage}
    description.opaque = tuple(plan["opaque"])
    for leaf, facet in input_schemas(plan, written).items():
        for dataset in leaves[leaf]:
            dataset["facets"].setdefault("schema", facet)


def with_facets(dataset: Dataset, more: Mapping[str, facets.Facet]) -> Dataset:
    """A dataset with additional facets."""
    return {**dataset, "facets": {**dataset["facets"], **more}}
