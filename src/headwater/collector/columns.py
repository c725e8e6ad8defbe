"""Facets from the column lineage of a plan, which Java derives (`headwater.columns`).

The result of the analysis has the output columns, each with its value:

- `inputs`: fields of the plan's leaves, each with the number of its `leaf`, its `path` and the
  `transformations` in OpenLineage's terms;
- `parts`: the values of the fields of a struct or of JSON text;
- `type`: the name of Spark's data type.

It also has the `decisive` inputs, in filters, joins and groupings, which determine the rows that
exist, and the `opaque` steps, whose code Spark can't analyze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pyspark.sql.types import DataType, StructType

from headwater.openlineage import facets
from headwater.openlineage.events import DatasetName

# The result of the analysis, and its parts.
PlanColumns = Mapping[str, Any]
Value = Mapping[str, Any]
Input = Mapping[str, Any]
# The datasets that each leaf reads.
LeafNames = Sequence[Sequence[DatasetName]]

# Nested structs below this depth are reported as one field.
_MAX_DEPTH = 5
_ORDER = itemgetter("type", "subtype", "masking", "description")


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


def typed_field(name: str, kind: DataType, unnested: bool = False) -> dict[str, Any]:
    """A field of the schema facet, from its data type."""
    type_json = kind.jsonValue()
    field: dict[str, Any] = {"name": name}
    field["type"] = (
        type_json if isinstance(type_json, str) else str(type_json.get("type", "struct"))
    )
    if isinstance(kind, StructType) and not unnested:
        field["fields"] = [typed_field(each.name, each.dataType) for each in kind]
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
