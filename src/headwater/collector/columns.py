"""Column lineage: the input fields of each output column of a plan.

Columns are traced through aliases, structs, `from_json`, `get_json_object`, `to_json`, conditions,
unions, joins, windows and aggregates. A step whose code Spark can't analyze, such as `mapInPandas`,
is opaque: each of its outputs is reported as depending on all of its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.collector.plan import (
    AGGREGATION,
    IDENTICAL,
    INDIRECT,
    NOTHING,
    TRANSFORMATION,
    ColumnField,
    PlanNode,
    Transformation,
    Value,
    all_inputs,
    depending,
    made_from,
    merged,
)

_HASHES = frozenset({"Sha1", "Sha2", "Md5", "XxHash64", "Murmur3Hash", "HiveHash", "Crc32", "Mask"})
# Wrappers that Spark puts around a value without changing it.
_TRANSPARENT = frozenset(
    {"Alias", "KnownNotNull", "KnownNotContainsNull", "AssertNotNull", "UpCast", "OuterReference"}
)
_TEXT = ("string", "binary")
_OPAQUE = re.compile(
    r"MapIn|InPandas|InArrow|FlatMap|MapGroups|MapElements|MapPartitions|TransformWithState|CoGroup"
    r"|SerializeFromObject|DeserializeToObject|TypedFilter|AppendColumns|ScriptTransformation"
)
_JSON_STEP = re.compile(r"\.([^.\[\]'*]+)|\['([^']+)'\]")


# Expression id -> value.
_Known = Mapping[int | None, Value]


@dataclass(frozen=True)
class Attribute:
    """An output column of a plan node."""

    name: str
    id: int | None
    value: Value


_Columns = list[Attribute]


@dataclass
class PlanColumns:
    """The columns of a plan, the fields that all rows depend on, and the opaque steps."""

    columns: list[Attribute]
    # Fields in filters, joins and groupings: they determine which rows exist.
    decisive: dict[ColumnField, frozenset[Transformation]] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)


def plan_columns(plan: PlanNode) -> PlanColumns:
    """Resolve all columns of a plan. Leaves are numbered from left to right."""
    walk = _Walk()
    columns = walk.columns_of(plan)
    return PlanColumns(columns, walk.decisive, walk.opaque)


class _Walk:
    """Walks from the leaves up: each node derives its columns from those of its children."""

    def __init__(self) -> None:
        self.decisive: dict[ColumnField, frozenset[Transformation]] = {}
        self.opaque: list[str] = []
        self._leaves = 0

    def columns_of(self, node: PlanNode) -> _Columns:
        """The output columns of a node."""
        below = [self.columns_of(child) for child in node.children]
        known: _Known = {each.id: each.value for rows in below for each in rows}
        if not node.children:
            return self._leaf(node)
        step = _STEPS.get(node.kind)
        if step is not None:
            return step(self, node, below, known)
        if _OPAQUE.search(node.kind):
            return self._opaque_step(node, below)
        if len(below) == 1:
            # Limits, hints, watermarks, repartitioning: columns pass through.
            return below[0]
        return self._opaque_step(node, below)

    def _leaf(self, node: PlanNode) -> _Columns:
        number = self._leaves
        self._leaves += 1
        return [
            Attribute(each.name, each.id, _field_of(number, each))
            for each in node.expressions("output")
        ]

    def project(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        return [_column(each, known) for each in node.expressions("projectList")]

    def aggregate(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        self._decide(
            "GROUP_BY", (value_of(e, known) for e in node.expressions("groupingExpressions"))
        )
        return [_column(each, known) for each in node.expressions("aggregateExpressions")]

    def filter(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        condition = node.expression("condition")
        if condition is not None:
            self._decide("FILTER", [value_of(condition, known)])
        return below[0]

    def sort(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        self._decide("SORT", (value_of(each, known) for each in node.expressions("order")))
        return below[0]

    def deduplicate(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        self._decide("GROUP_BY", (value_of(each, known) for each in node.expressions("keys")))
        return below[0]

    def join(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        condition = node.expression("condition")
        if condition is not None:
            self._decide("JOIN", [value_of(condition, known)])
        kind = str(node.facts.get("joinType"))
        if "LeftSemi" in kind or "LeftAnti" in kind:
            return below[0]
        return [each for rows in below for each in rows]

    def union(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        # Columns are named after the first child and matched by position.
        return [
            replace(same[0], value=merged(each.value for each in same))
            for same in zip(*below, strict=False)
        ]

    def window(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        specs = [*node.expressions("partitionSpec"), *node.expressions("orderSpec")]
        self._decide("WINDOW", (value_of(each, known) for each in specs))
        return below[0] + [_column(each, known) for each in node.expressions("windowExpressions")]

    def generate(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        generator = node.expression("generator")
        value = value_of(generator, known) if generator is not None else NOTHING
        generated = node.expressions("generatorOutput")
        return below[0] + [Attribute(each.name, each.id, value) for each in generated]

    def expand(self, node: PlanNode, below: list[_Columns], known: _Known) -> _Columns:
        # Grouping sets: each output has one expression per projection.
        rows = node.facts.get("projections") or []
        projections = [PlanNode("", {"row": row}, ()).expressions("row") for row in rows]
        columns = zip(node.expressions("output"), *projections, strict=False)
        return [
            Attribute(each.name, each.id, merged(value_of(e, known) for e in values))
            for each, *values in columns
        ]

    def _opaque_step(self, node: PlanNode, below: list[_Columns]) -> _Columns:
        self.opaque.append(node.kind)
        inputs = [each.value for rows in below for each in rows]
        description = f"{node.kind} is opaque: it may depend on any of its inputs"
        value = made_from(inputs, TRANSFORMATION, description=description)
        outputs = node.expressions("output") or node.expressions("serializer")
        if outputs:
            return [Attribute(each.name, each.id, value) for each in outputs]
        return [replace(each, value=value) for rows in below for each in rows]

    def _decide(self, subtype: str, values: Iterable[Value]) -> None:
        added = frozenset({Transformation(INDIRECT, subtype)})
        for value in values:
            for source in all_inputs(value):
                self.decisive[source] = self.decisive.get(source, frozenset()) | added


_Step = Callable[[_Walk, PlanNode, list[_Columns], _Known], _Columns]
_STEPS: Mapping[str, _Step] = {
    "Project": _Walk.project,
    "Aggregate": _Walk.aggregate,
    "Filter": _Walk.filter,
    "Sort": _Walk.sort,
    "Deduplicate": _Walk.deduplicate,
    "DeduplicateWithinWatermark": _Walk.deduplicate,
    "Join": _Walk.join,
    "Union": _Walk.union,
    "Window": _Walk.window,
    "Generate": _Walk.generate,
    "Expand": _Walk.expand,
}


def _field_of(leaf: int, attribute: PlanNode) -> Value:
    source = ColumnField(leaf, (attribute.name,))
    kind = attribute.facts.get("dataType")
    return Value({source: frozenset({IDENTICAL})}, type=kind)


def _column(expression: PlanNode, known: _Known) -> Attribute:
    return Attribute(expression.name, expression.id, value_of(expression, known))


def value_of(node: PlanNode, known: _Known) -> Value:
    """The inputs of an expression's value."""
    if node.kind == "AttributeReference":
        return known.get(node.id, NOTHING)
    special = _SPECIAL.get(node.kind)
    if special is not None:
        return special(node, known)
    values = [value_of(child, known) for child in node.children]
    if node.kind in _TRANSPARENT and len(values) == 1:
        return values[0]
    masking = node.kind in _HASHES
    description = f"{node.name} is opaque" if node.kind == "PythonUDF" else ""
    return made_from(values, TRANSFORMATION, masking=masking, description=description)


def _cast(node: PlanNode, known: _Known) -> Value:
    value = value_of(node.children[0], known)
    kind = node.facts.get("dataType")
    if kind == value.type or (kind in _TEXT and (value.type in _TEXT or value.parts)):
        return replace(value, type=kind)
    return replace(made_from([value], TRANSFORMATION), type=kind)


def _struct(node: PlanNode, known: _Known) -> Value:
    names, values = node.children[::2], node.children[1::2]
    pairs = zip(names, values, strict=True)
    return Value(parts={str(n.facts.get("value")): value_of(v, known) for n, v in pairs})


def _struct_field(node: PlanNode, known: _Known) -> Value:
    child = value_of(node.children[0], known)
    number = node.facts.get("ordinal", -1)
    if child.parts is not None:
        names = list(child.parts)
        name = node.facts.get("name") or (names[number] if 0 <= number < len(names) else "")
        return child.parts.get(name) or child.part(name)
    fields = child.type.get("fields", []) if isinstance(child.type, dict) else []
    known_field = fields[number] if 0 <= number < len(fields) else {}
    name = known_field.get("name") or node.facts.get("name") or str(number)
    return child.part(name, known_field.get("type"))


def _json_object(node: PlanNode, known: _Known) -> Value:
    value = value_of(node.children[0], known)
    path = str(node.children[1].facts.get("value", ""))
    steps = [first or second for first, second in _JSON_STEP.findall(path)]
    simple = "$" + "".join(f".{step}" for step in steps) == path.replace("['", ".").replace(
        "']", ""
    )
    if not steps or not simple:
        return made_from([value], TRANSFORMATION)
    for step in steps:
        value = value.part(step, "string")
    return value


def _conditional(conditions: list[PlanNode], branches: list[PlanNode], known: _Known) -> Value:
    value = merged(value_of(each, known) for each in branches)
    for each in conditions:
        value = depending(value, value_of(each, known), "CONDITIONAL")
    return value


def _case(node: PlanNode, known: _Known) -> Value:
    children = list(node.children)
    otherwise = [children.pop()] if len(children) % 2 else []
    return _conditional(children[::2], children[1::2] + otherwise, known)


def _aggregated(node: PlanNode, known: _Known) -> Value:
    values = [value_of(child, known) for child in node.children]
    counted = any(child.kind in ("Count", "ApproxCountDistinct") for child in node.children)
    return made_from(values, AGGREGATION, masking=counted)


_SPECIAL: Mapping[str, Callable[[PlanNode, _Known], Value]] = {
    "Cast": _cast,
    "TryCast": _cast,
    "CreateNamedStruct": _struct,
    "GetStructField": _struct_field,
    "JsonToStructs": lambda n, known: value_of(n.children[0], known).read_as(n.facts.get("schema")),
    "StructsToJson": lambda n, known: replace(value_of(n.children[0], known), type="string"),
    "GetJsonObject": _json_object,
    "CaseWhen": _case,
    "If": lambda n, known: _conditional([n.children[0]], list(n.children[1:]), known),
    "Coalesce": lambda n, known: merged(value_of(child, known) for child in n.children),
    "AggregateExpression": _aggregated,
    "WindowExpression": lambda n, known: made_from(
        [value_of(n.children[0], known)], TRANSFORMATION
    ),
}
