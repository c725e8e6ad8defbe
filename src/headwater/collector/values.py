"""Where a value of a query comes from: which fields of which inputs, and by what kind of step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

DIRECT, INDIRECT = "DIRECT", "INDIRECT"
IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"


class Field(NamedTuple):
    """A field of an input: which leaf of the plan, and its path there."""

    leaf: int
    path: tuple[str, ...]


class Transformation(NamedTuple):
    """How a value depends on a field, in OpenLineage's words."""

    type: str
    subtype: str
    masking: bool = False
    description: str = ""


IDENTICAL = Transformation(DIRECT, IDENTITY)
Inputs = Mapping[Field, frozenset[Transformation]]


@dataclass(frozen=True)
class Value:
    """What is known of a column, or of a part of one."""

    # Of the whole; what is known of its parts stands there.
    inputs: Inputs = field(default_factory=dict)
    # Of a struct, or of JSON text: its parts.
    parts: Mapping[str, Value] | None = None
    # As Spark writes it in JSON; None where nobody needs it.
    type: Any = None

    @property
    def identical_to(self) -> Field | None:
        """The one field that this is, unchanged."""
        if len(self.inputs) != 1:
            return None
        ((found, ways),) = self.inputs.items()
        return found if ways == {IDENTICAL} else None

    def part(self, name: str, kind: Any = None) -> Value:
        """A field of this struct or JSON."""
        if self.parts is not None and name in self.parts:
            return self.parts[name]
        whole = self.identical_to
        if whole is not None:
            found = Field(whole.leaf, (*whole.path, name))
            return Value({found: frozenset({IDENTICAL})}, type=kind)
        return replace(self, parts=None, type=kind)

    def read_as(self, schema: Any) -> Value:
        """This text as JSON of a schema: a part for each of its fields."""
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
    """One of several, as of the branches of a condition: it depends on all of them."""
    known = list(values)
    if len(known) == 1:
        return known[0]
    inputs: dict[Field, frozenset[Transformation]] = {}
    for value in known:
        for found, ways in value.inputs.items():
            inputs[found] = inputs.get(found, frozenset()) | ways
    with_parts = [value.parts for value in known if value.parts is not None]
    names = dict.fromkeys(name for found in with_parts for name in found)
    parts = {
        name: merged(found[name] for found in with_parts if name in found) for name in names
    } or None
    kind = next((value.type for value in known if value.type is not None), None)
    return Value(inputs, parts, kind)


def made_from(
    values: Iterable[Value], subtype: str, *, masking: bool = False, description: str = ""
) -> Value:
    """The result of a function of these values."""
    inputs: dict[Field, frozenset[Transformation]] = {}
    for value in values:
        for found, ways in everything(value).items():
            changed = frozenset(_behind(way, subtype, masking, description) for way in ways)
            inputs[found] = inputs.get(found, frozenset()) | changed
    return Value(inputs)


def depending(value: Value, on: Value, subtype: str) -> Value:
    """The value, and that something decides about it."""
    inputs, parts = dict(value.inputs), value.parts
    if parts is not None:
        parts = {name: depending(part, on, subtype) for name, part in parts.items()}
    if inputs or parts is None:
        for found in everything(on):
            way = frozenset({Transformation(INDIRECT, subtype)})
            inputs[found] = inputs.get(found, frozenset()) | way
    return replace(value, inputs=inputs, parts=parts)


def everything(value: Value) -> Inputs:
    """All that a value and its parts depend on."""
    if value.parts is None:
        return value.inputs
    inputs = dict(value.inputs)
    for part in value.parts.values():
        for found, ways in everything(part).items():
            inputs[found] = inputs.get(found, frozenset()) | ways
    return inputs


def _behind(way: Transformation, subtype: str, masking: bool, description: str) -> Transformation:
    """A way with one more step: what was aggregated stays so, and what was masked, too."""
    if way.type == INDIRECT:
        return way
    kept = AGGREGATION if AGGREGATION in (way.subtype, subtype) else subtype
    return Transformation(DIRECT, kept, way.masking or masking, description or way.description)
