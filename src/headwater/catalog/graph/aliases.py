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
    return {alias: _follow(alias, first) for alias in first}


def _follow(start: UUID, first: dict[UUID, tuple[datetime, UUID]]) -> UUID:
    path = [start]
    while path[-1] in first:
        following = first[path[-1]][1]
        if following in path:
            circle = path[path.index(following) :]
            return max(circle, key=lambda each: (first[each], each))
        path.append(following)
    return path[-1]
