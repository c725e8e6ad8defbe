"""What a query reads, and what its outputs are made from, as the datasets of events."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from headwater.collector.columns import Attribute, PlanColumns, plan_columns
from headwater.collector.plan import parse_plan
from headwater.collector.sources import LeafDatasets, kafka_servers, leaf_datasets
from headwater.collector.values import Field, Transformation, Value, everything
from headwater.openlineage import facets
from headwater.openlineage.events import Dataset

# Structs in structs: below that, the whole is told.
_DEEPEST = 5
# A facet of a table with thousands of columns would be larger than catalogs take.
_MAX_COLUMNS = 2000


@dataclass
class Description:
    """The inputs of a plan and where its columns come from."""

    inputs: list[Dataset] = field(default_factory=list)
    # For an output with all columns of the plan; empty if they could not be followed.
    output_facets: dict[str, facets.Facet] = field(default_factory=dict)
    # Steps whose code can't be looked into.
    opaque: tuple[str, ...] = ()
    # Why there is no column lineage, if there is none.
    trouble: str | None = None
    # Of the Kafka sources, if they are all of one cluster: topics may turn up later.
    bootstrap_servers: str | None = None


def describe(
    rows: DataFrame,
    *,
    columns: Sequence[str] | None = None,
    hidden: Iterable[str] = (),
    whole: Iterable[str] = (),
    seconds: float = 2.0,
) -> Description:
    """Look at the plan of rows; never raises, and takes no longer than that for its columns.

    Args:
        columns: those that are written. Default: all.
        hidden: topics that are not told of.
        whole: columns whose parts are not told of.
        seconds: 0 leaves the columns out.
    """
    try:
        plan: Any = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    except Exception as error:
        return Description(trouble=f"{type(error).__name__}: {error}")
    return describe_plan(plan, columns=columns, hidden=hidden, whole=whole, seconds=seconds)


def describe_plan(
    plan: Any,
    *,
    columns: Sequence[str] | None = None,
    hidden: Iterable[str] = (),
    whole: Iterable[str] = (),
    seconds: float = 2.0,
) -> Description:
    """The same for a plan in the JVM."""
    found = Description()
    try:
        leaves = leaf_datasets(plan, hidden)
        found.inputs = _distinct(leaves)
        found.bootstrap_servers = kafka_servers(plan)
        if seconds <= 0:
            found.trouble = "lineage.analysis_seconds is 0"
            return found
        looked = _Look(plan, seconds)
        if looked.columns is None:
            found.trouble = looked.trouble
        else:
            _tell_columns(found, looked.columns, leaves, columns, frozenset(whole))
    except Exception as error:
        # Of a plan that looks otherwise than those that are known, what was found so far is told.
        found.trouble = f"{type(error).__name__}: {error}"
    return found


class _Look:
    """Follows the columns in a thread of its own, which is not waited for longer than a bound."""

    def __init__(self, plan: Any, seconds: float) -> None:
        self.columns: PlanColumns | None = None
        self.trouble: str | None = f"the plan took longer than {seconds:g} s to look at"
        thread = threading.Thread(target=self._run, args=(plan,), daemon=True)
        thread.start()
        thread.join(seconds)

    def _run(self, plan: Any) -> None:
        try:
            self.columns = plan_columns(parse_plan(plan.toJSON()))
        except Exception as error:
            # Spark's own form of a plan is no promise: another version may have another.
            self.trouble = f"{type(error).__name__}: {error}"


def _distinct(leaves: LeafDatasets) -> list[Dataset]:
    found = {(each["namespace"], each["name"]): each for leaf in leaves for each in leaf}
    return list(found.values())


def _tell_columns(
    found: Description,
    plan: PlanColumns,
    leaves: LeafDatasets,
    columns: Sequence[str] | None,
    whole: frozenset[str],
) -> None:
    written = [each for each in plan.columns if columns is None or each.name in columns]
    fields: dict[str, dict[str, Any]] = {}
    for each in written:
        depth = _DEEPEST if each.name in whole else 0
        _add_fields(fields, each.name, each.value, leaves, depth)
    if len(fields) > _MAX_COLUMNS:
        found.trouble = f"{len(fields)} columns are more than the {_MAX_COLUMNS} that are told of"
        return
    decisive = [
        entry for at, ways in plan.decisive.items() for entry in _input_fields(at, ways, leaves)
    ]
    schema = [_schema_field(each.name, each.value, each.name in whole) for each in written]
    found.output_facets = {
        "schema": facets.schema(schema),
        "columnLineage": facets.column_lineage(fields, decisive),
    }
    found.opaque = tuple(dict.fromkeys(plan.opaque))
    _tell_input_fields(found, plan, written, leaves)


def _add_fields(
    fields: dict[str, dict[str, Any]], name: str, value: Value, leaves: LeafDatasets, depth: int
) -> None:
    if value.parts and depth < _DEEPEST:
        for part, each in value.parts.items():
            _add_fields(fields, f"{name}.{part}", each, leaves, depth + 1)
        inputs = value.inputs
    else:
        inputs = everything(value)
    listed = [entry for at, ways in inputs.items() for entry in _input_fields(at, ways, leaves)]
    if listed:
        fields[name] = {"inputFields": listed}


def _input_fields(
    at: Field, ways: frozenset[Transformation], leaves: LeafDatasets
) -> list[dict[str, Any]]:
    datasets = leaves[at.leaf] if at.leaf < len(leaves) else []
    told = [
        {
            "type": way.type,
            "subtype": way.subtype,
            "description": way.description,
            "masking": way.masking,
        }
        for way in sorted(ways)
    ]
    return [
        {
            "namespace": dataset["namespace"],
            "name": dataset["name"],
            "field": ".".join(at.path),
            "transformations": told,
        }
        for dataset in datasets
    ]


def _schema_field(name: str, value: Value, whole: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": _type_name(value)}
    if value.parts and not whole:
        found["fields"] = [_schema_field(part, each) for part, each in value.parts.items()]
    return found


def _type_name(value: Value) -> str:
    kind = value.type
    if isinstance(kind, dict):
        return str(kind.get("type", "struct"))
    return str(kind) if kind else ("struct" if value.parts else "unknown")


def _tell_input_fields(
    found: Description, plan: PlanColumns, written: Sequence[Attribute], leaves: LeafDatasets
) -> None:
    """A topic has no schema of its own: what is read of it is what is known."""
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
    """Fields in fields, from their paths."""
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
    """A dataset with further facets."""
    return {**dataset, "facets": {**dataset["facets"], **more}}
