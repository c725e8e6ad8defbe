"""Which of a dataset's names is the one that stands for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

# (alias, dataset that named it, when it was first named)
Link = tuple[UUID, UUID, datetime]


def canonical_names(links: Iterable[Link]) -> dict[UUID, UUID]:
    """The dataset behind every alias that appears in `links`.

    An alias leads to the dataset that named it first; aliases of aliases are followed. Two
    datasets that name each other are one, and the one that was named later by the other stands
    for both. The answer depends on the links alone, not on the order in which they came.
    """
    first: dict[UUID, tuple[datetime, UUID]] = {}
    for alias, dataset, at in links:
        if alias not in first or (at, dataset) < first[alias]:
            first[alias] = (at, dataset)
    found: dict[UUID, UUID] = {}
    for alias in first:
        _follow(alias, first, found)
    return {alias: found[alias] for alias in first}


def _follow(start: UUID, first: dict[UUID, tuple[datetime, UUID]], found: dict[UUID, UUID]) -> None:
    """Notes where every name on the way leads to, so that a long chain is walked once."""
    path: dict[UUID, int] = {}
    name = start
    while name not in found:
        if name not in first:
            found[name] = name
        elif name in path:
            circle = list(path)[path[name] :]
            found[name] = max(circle, key=lambda each: (first[each], each))
        else:
            path[name] = len(path)
            name = first[name][1]
    for passed in path:
        found[passed] = found[name]
