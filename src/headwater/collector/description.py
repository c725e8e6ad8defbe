"""Describes a query from its plan: the input datasets and the column lineage of its output."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from headwater.collector.columns import Attribute, PlanColumns, plan_columns
from headwater.collector.plan import ColumnField, Transformation, Value, all_inputs, parse_plan
from headwater.collector.sources import LeafDatasets, kafka_servers, leaf_datasets
from headwater.openlineage import facets
from headwater.openlineage.events import Dataset

# Nested structs below this depth are reported as one field.
_MAX_DEPTH = 5
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
            self.columns = plan_columns(parse_plan(plan.toJSON()))
        except Exception as error:
            # Spark does not guarantee the format of `toJSON`: it may change with the version.
            self.trouble = f"{type(error).__name__}: {error}"


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
    written = [each for each in plan.columns if columns is None or each.name in columns]
    fields: dict[str, dict[str, Any]] = {}
    for each in written:
        depth = _MAX_DEPTH if each.name in unnested else 0
        _add_fields(fields, each.name, each.value, leaves, depth)
    if len(fields) > _MAX_COLUMNS:
        description.trouble = f"{len(fields)} columns, at most {_MAX_COLUMNS} are reported"
        return
    decisive = [
        entry
        for at, transformations in plan.decisive.items()
        for entry in _input_fields(at, transformations, leaves)
    ]
    schema = [_schema_field(each.name, each.value, each.name in unnested) for each in written]
    description.output_facets = {
        "schema": facets.schema(schema),
        "columnLineage": facets.column_lineage(fields, decisive),
    }
    description.opaque = tuple(dict.fromkeys(plan.opaque))
    _add_input_schemas(plan, written, leaves)


def _add_fields(
    fields: dict[str, dict[str, Any]], name: str, value: Value, leaves: LeafDatasets, depth: int
) -> None:
    if value.parts and depth < _MAX_DEPTH:
        for part, each in value.parts.items():
            _add_fields(fields, f"{name}.{part}", each, leaves, depth + 1)
        inputs = value.inputs
    else:
        inputs = all_inputs(value)
    listed = [
        entry
        for at, transformations in inputs.items()
        for entry in _input_fields(at, transformations, leaves)
    ]
    if listed:
        fields[name] = {"inputFields": listed}


def _input_fields(
    at: ColumnField, transformations: frozenset[Transformation], leaves: LeafDatasets
) -> list[dict[str, Any]]:
    datasets = leaves[at.leaf] if at.leaf < len(leaves) else []
    listed = [
        {
            "type": each.type,
            "subtype": each.subtype,
            "description": each.description,
            "masking": each.masking,
        }
        for each in sorted(transformations)
    ]
    return [
        {
            "namespace": dataset["namespace"],
            "name": dataset["name"],
            "field": ".".join(at.path),
            "transformations": listed,
        }
        for dataset in datasets
    ]


def _schema_field(name: str, value: Value, unnested: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"name": name, "type": _type_name(value)}
    if value.parts and not unnested:
        schema["fields"] = [_schema_field(part, each) for part, each in value.parts.items()]
    return schema


def _type_name(value: Value) -> str:
    kind = value.type
    if isinstance(kind, dict):
        return str(kind.get("type", "struct"))
    return str(kind) if kind else ("struct" if value.parts else "unknown")


def _add_input_schemas(
    plan: PlanColumns, written: Sequence[Attribute], leaves: LeafDatasets
) -> None:
    """Topics have no schema: report the fields that the query reads."""
    used: dict[int, dict[tuple[str, ...], Any]] = {}
    for at in plan.decisive:
        used.setdefault(at.leaf, {})[at.path] = None
    for each in written:
        for value in _parts(each.value):
            for at in value.inputs:
                kind = value.type if at == value.identical_to else None
                paths = used.setdefault(at.leaf, {})
                paths[at.path] = paths.get(at.path) or kind
    for leaf, paths in used.items():
        for dataset in leaves[leaf] if leaf < len(leaves) else []:
            dataset["facets"].setdefault("schema", facets.schema(_nested(paths)))


def _parts(value: Value) -> Iterator[Value]:
    yield value
    for part in (value.parts or {}).values():
        yield from _parts(part)


def _nested(paths: Mapping[tuple[str, ...], Any]) -> list[dict[str, Any]]:
    """Nested fields from their paths."""
    below: dict[str, dict[tuple[str, ...], Any]] = {}
    kinds: dict[str, Any] = {}
    for path, kind in paths.items():
        inner = below.setdefault(path[0], {})
        if len(path) > 1:
            inner[path[1:]] = kind
        else:
            kinds[path[0]] = kind
    return [
        {
            "name": name,
            **({"type": kinds[name]} if isinstance(kinds.get(name), str) else {}),
            **({"fields": _nested(inner)} if inner else {}),
        }
        for name, inner in below.items()
    ]


def with_facets(dataset: Dataset, more: Mapping[str, facets.Facet]) -> Dataset:
    """A dataset with additional facets."""
    return {**dataset, "facets": {**dataset["facets"], **more}}
