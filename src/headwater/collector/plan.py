"""The plan of a Spark query as a tree of plain values, and the values of its expressions.

`plan.toJSON()` returns the plan in one call: a list of nodes in pre-order, each with the number of
its children. Reading the nodes through py4j would take at least one call per node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


@dataclass(frozen=True)
class PlanNode:
    """A plan node, or a node of an expression tree."""

    kind: str
    facts: dict[str, Any]
    children: tuple[PlanNode, ...]

    def expression(self, name: str) -> PlanNode | None:
        """An expression of the node; expressions are not among its children."""
        value: Any = self.facts.get(name)
        return _tree(value) if _is_tree(value) else None

    def expressions(self, name: str) -> list[PlanNode]:
        """A list of expressions of the node."""
        values = self.facts.get(name)
        if not isinstance(values, list):
            return []
        return [_tree(each) for each in values if _is_tree(each)]

    @property
    def id(self) -> int | None:
        """Expression id of an attribute or alias, which expressions above refer to."""
        expression_id = self.facts.get("exprId")
        return expression_id["id"] if isinstance(expression_id, dict) else None

    @property
    def name(self) -> str:
        return str(self.facts.get("name") or "")


def parse_plan(text: str) -> PlanNode:
    """Parse the result of `plan.toJSON()`."""
    return _tree(json.loads(text))


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _tree(nodes: list[dict[str, Any]]) -> PlanNode:
    node, _ = _build(nodes, 0)
    return node


def _build(nodes: list[dict[str, Any]], at: int) -> tuple[PlanNode, int]:
    facts = nodes[at]
    children = []
    after = at + 1
    for _ in range(facts.get("num-children", 0)):
        child, after = _build(nodes, after)
        children.append(child)
    kind = str(facts.get("class", "")).rpartition(".")[2]
    return PlanNode(kind, facts, tuple(children)), after


DIRECT, INDIRECT = "DIRECT", "INDIRECT"
IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"


class ColumnField(NamedTuple):
    """A field of an input: the number of the plan's leaf, and the path of the field in it."""

    leaf: int
    path: tuple[str, ...]


class Transformation(NamedTuple):
    """How a value depends on a field, in OpenLineage's terms."""

    type: str
    subtype: str
    masking: bool = False
    description: str = ""


IDENTICAL = Transformation(DIRECT, IDENTITY)
Inputs = Mapping[ColumnField, frozenset[Transformation]]


@dataclass(frozen=True)
class Value:
    """Lineage of a column, or of a field of a struct column."""

    # Inputs of the value itself; those of its parts are in `parts`.
    inputs: Inputs = field(default_factory=dict)
    # Fields of a struct or of JSON text.
    parts: Mapping[str, Value] | None = None
    # Spark's data type as JSON; None where it is not needed.
    type: Any = None

    @property
    def identical_to(self) -> ColumnField | None:
        """The input field that this value is an unchanged copy of."""
        if len(self.inputs) != 1:
            return None
        ((source, transformations),) = self.inputs.items()
        return source if transformations == {IDENTICAL} else None

    def part(self, name: str, kind: Any = None) -> Value:
        """A field of this struct or JSON."""
        if self.parts is not None and name in self.parts:
            return self.parts[name]
        source = self.identical_to
        if source is not None:
            part = ColumnField(source.leaf, (*source.path, name))
            return Value({part: frozenset({IDENTICAL})}, type=kind)
        return replace(self, parts=None, type=kind)

    def read_as(self, schema: Any) -> Value:
        """This text parsed as JSON with a schema: one part per field."""
        if isinstance(schema, dict) and schema.get("type") == "struct":
            fields = schema.get("fields") or ()
            parts = {each["name"]: self._field(each) for each in fields}
            return Value(parts=parts, type=schema)
        return replace(self, parts=None, type=schema)

    def _field(self, each: Mapping[str, Any]) -> Value:
        bare = replace(self, parts=None)
        return bare.part(each["name"]).read_as(each.get("type"))


NOTHING = Value()


def merged(values: Iterable[Value]) -> Value:
    """A value that is one of several, such as the branches of a CASE; it depends on all of them."""
    known = list(values)
    if len(known) == 1:
        return known[0]
    inputs: dict[ColumnField, frozenset[Transformation]] = {}
    for value in known:
        for source, transformations in value.inputs.items():
            inputs[source] = inputs.get(source, frozenset()) | transformations
    with_parts = [value.parts for value in known if value.parts is not None]
    names = dict.fromkeys(name for parts in with_parts for name in parts)
    merged_parts = {
        name: merged(parts[name] for parts in with_parts if name in parts) for name in names
    } or None
    kind = next((value.type for value in known if value.type is not None), None)
    return Value(inputs, merged_parts, kind)


def made_from(
    values: Iterable[Value], subtype: str, *, masking: bool = False, description: str = ""
) -> Value:
    """The result of a function of these values."""
    inputs: dict[ColumnField, frozenset[Transformation]] = {}
    for value in values:
        for source, transformations in all_inputs(value).items():
            changed = frozenset(
                _after_step(each, subtype, masking, description) for each in transformations
            )
            inputs[source] = inputs.get(source, frozenset()) | changed
    return Value(inputs)


def depending(value: Value, on: Value, subtype: str) -> Value:
    """The value with an indirect dependency, such as on the condition of a CASE."""
    inputs, parts = dict(value.inputs), value.parts
    if parts is not None:
        parts = {name: depending(part, on, subtype) for name, part in parts.items()}
    if inputs or parts is None:
        added = frozenset({Transformation(INDIRECT, subtype)})
        for source in all_inputs(on):
            inputs[source] = inputs.get(source, frozenset()) | added
    return replace(value, inputs=inputs, parts=parts)


def all_inputs(value: Value) -> Inputs:
    """The inputs of a value and of its parts."""
    if value.parts is None:
        return value.inputs
    inputs = dict(value.inputs)
    for part in value.parts.values():
        for source, transformations in all_inputs(part).items():
            inputs[source] = inputs.get(source, frozenset()) | transformations
    return inputs


def _after_step(
    before: Transformation, subtype: str, masking: bool, description: str
) -> Transformation:
    """The transformation after one more step; aggregated and masked values stay so."""
    if before.type == INDIRECT:
        return before
    kept = AGGREGATION if AGGREGATION in (before.subtype, subtype) else subtype
    return Transformation(
        DIRECT, kept, before.masking or masking, description or before.description
    )
