"""Spark's plan of a query as a tree of plain values.

Spark writes a plan as JSON in one call (`plan.toJSON()`): a list of nodes, parents first, each with
the number of its children. Asking for its nodes one by one through py4j would take a call each.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """A step of a plan, or a part of an expression."""

    kind: str
    facts: dict[str, Any]
    children: tuple[Node, ...]

    def expression(self, name: str) -> Node | None:
        """An expression that the node holds beside its children."""
        found: Any = self.facts.get(name)
        return _tree(found) if _is_tree(found) else None

    def expressions(self, name: str) -> list[Node]:
        """A list of them."""
        found = self.facts.get(name)
        if not isinstance(found, list):
            return []
        return [_tree(each) for each in found if _is_tree(each)]

    @property
    def id(self) -> int | None:
        """Of an attribute or an alias: what expressions above refer to."""
        found = self.facts.get("exprId")
        return found["id"] if isinstance(found, dict) else None

    @property
    def name(self) -> str:
        return str(self.facts.get("name") or "")


def parse_plan(text: str) -> Node:
    """The tree of `plan.toJSON()`."""
    return _tree(json.loads(text))


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _tree(nodes: list[dict[str, Any]]) -> Node:
    node, _ = _build(nodes, 0)
    return node


def _build(nodes: list[dict[str, Any]], at: int) -> tuple[Node, int]:
    facts = nodes[at]
    children = []
    after = at + 1
    for _ in range(facts.get("num-children", 0)):
        child, after = _build(nodes, after)
        children.append(child)
    kind = str(facts.get("class", "")).rpartition(".")[2]
    return Node(kind, facts, tuple(children)), after
