"""Describes a query from its plan: its input datasets, and the column lineage of its output.

Java derives the column lineage (`dev.headwater.columns`). Its result has the output columns, each
with its value:

- `inputs`: fields of the plan's leaves, each with the number of its `leaf`, its `path` and the
  `transformations` in OpenLineage's terms;
- `parts`: the values of the fields of a struct or of JSON text;
- `type`: the name of Spark's data type.

It also has the `decisive` inputs, in filters, joins and groupings, which determine the rows that
exist, and the `opaque` steps, whose code Spark can't analyze.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame

from headwater.collector.sources import LeafDatasets, kafka_servers, leaf_datasets
from headwater.errors import NotInstalledError
from headwater.openlineage import facets
from headwater.openlineage.events import Dataset, DatasetName, name_of
from headwater.spark.session import own_class

# The result of the analysis, and its parts.
PlanColumns = Mapping[str, Any]
Value = Mapping[str, Any]
Input = Mapping[str, Any]
# The datasets that each leaf reads.
LeafNames = Sequence[Sequence[DatasetName]]

# Nested structs below this depth are reported as one field.
_MAX_DEPTH = 5
_ORDER = itemgetter("type", "subtype", "masking", "description")
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


def lineage_by_field(
    plan: PlanColumns,
    written: Iterable[Mapping[str, Any]],
    leaves: LeafNames,
    unnested: frozenset[str] = frozenset(),
) -> facets.Facet:
    """The facet of an output whose structs and JSON texts are reported field by field.

    Args:
        written: the columns of the plan that the output has.
        unnested: struct columns that are reported as one field.
    """
    inputs = {
        name: each
        for column in written
        for name, each in _fields(column["name"], column["value"], column["name"] in unnested)
    }
    return _facet(inputs, plan["decisive"], leaves)


def lineage_by_column(plan: PlanColumns, leaves: LeafNames) -> facets.Facet:
    """The facet of an output by column: fields of structs and of JSON count as their columns."""
    inputs = {each["name"]: _of_columns(each["value"]) for each in plan["columns"]}
    return _facet(inputs, map(_of_column, plan["decisive"]), leaves)


def _facet(
    inputs: Mapping[str, Iterable[Input]], decisive: Iterable[Input], leaves: LeafNames
) -> facets.Facet:
    listed = {name: _input_fields(each, leaves) for name, each in inputs.items()}
    fields = {name: {"inputFields": each} for name, each in listed.items() if each}
    return facets.column_lineage(fields, _input_fields(decisive, leaves))


def _fields(
    name: str, value: Value, unnested: bool, depth: int = 0
) -> Iterator[tuple[str, list[Input]]]:
    parts = value.get("parts")
    if not parts or unnested or depth >= _MAX_DEPTH:
        yield name, _all_inputs(value)
        return
    for part, each in parts.items():
        yield from _fields(f"{name}.{part}", each, unnested, depth + 1)
    yield name, value["inputs"]


def _all_inputs(value: Value) -> list[Input]:
    return [each for part in _parts(value) for each in part["inputs"]]


def _parts(value: Value) -> Iterator[Value]:
    yield value
    for part in value.get("parts", {}).values():
        yield from _parts(part)


def _of_columns(value: Value) -> list[Input]:
    own = [_of_column(each) for each in value["inputs"]]
    parts = [each for part in value.get("parts", {}).values() for each in _all_inputs(part)]
    return own + [_of_column(each, is_part=True) for each in parts]


def _of_column(each: Input, is_part: bool = False) -> Input:
    """An input by its column: a copy of a part of a column is a function of that column."""
    column, *inner = each["path"]
    transformations = each["transformations"]
    if inner or is_part:
        transformations = [
            {**one, "subtype": "TRANSFORMATION"} if one["subtype"] == "IDENTITY" else one
            for one in transformations
        ]
    return {**each, "path": [column], "transformations": transformations}


def _input_fields(inputs: Iterable[Input], leaves: LeafNames) -> list[dict[str, Any]]:
    """Each input field once, with all its transformations."""
    found: dict[tuple[DatasetName, str], list[dict[str, Any]]] = {}
    for each in inputs:
        for name in leaves[each["leaf"]]:
            listed = found.setdefault((name, ".".join(each["path"])), [])
            listed += [one for one in each["transformations"] if one not in listed]
    return [
        {**name._asdict(), "field": field, "transformations": sorted(listed, key=_ORDER)}
        for (name, field), listed in found.items()
    ]


def schema_field(name: str, value: Value, unnested: bool = False) -> dict[str, Any]:
    """A field of the schema facet, from its value."""
    field: dict[str, Any] = {"name": name, "type": value.get("type", "unknown")}
    if value.get("parts") and not unnested:
        field["fields"] = [schema_field(part, each) for part, each in value["parts"].items()]
    return field


def input_schemas(
    plan: PlanColumns, written: Iterable[Mapping[str, Any]]
) -> dict[int, facets.Facet]:
    """The fields that the plan reads, by leaf: topics have no other schema."""
    used: dict[int, dict[tuple[str, ...], str | None]] = {}
    for each in plan["decisive"]:
        used.setdefault(each["leaf"], {})[tuple(each["path"])] = None
    for column in written:
        for value in _parts(column["value"]):
            for each in value["inputs"]:
                paths = used.setdefault(each["leaf"], {})
                path = tuple(each["path"])
                kind = value.get("type") if _is_copy(value) else None
                paths[path] = paths.get(path) or kind
    return {leaf: facets.schema(_nested(paths)) for leaf, paths in used.items()}


def _is_copy(value: Value) -> bool:
    """Whether the value is an unchanged copy of its input."""
    how = [one for each in value["inputs"] for one in each["transformations"]]
    return len(how) == 1 and how[0]["subtype"] == "IDENTITY"


def _nested(paths: Mapping[tuple[str, ...], str | None]) -> list[dict[str, Any]]:
    """Nested fields from their paths."""
    below: dict[str, dict[tuple[str, ...], str | None]] = {}
    kinds: dict[str, str | None] = {}
    for path, kind in paths.items():
        inner = below.setdefault(path[0], {})
        if len(path) > 1:
            inner[path[1:]] = kind
        else:
            kinds[path[0]] = kind
    return [
        {
            "name": name,
            **({"type": kinds[name]} if kinds.get(name) else {}),
            **({"fields": _nested(inner)} if inner else {}),
        }
        for name, inner in below.items()
    ]
