"""Claims put into an order in which each comes behind those it rests on; circles are cut.

Whoever may write to a topic may claim that a record is its own ancestor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from headwater.model import Address


def bottom_up(
    roots: Iterable[Address], below: Mapping[Address, Collection[Address]]
) -> Iterator[tuple[Address, set[Address]]]:
    """Each address once, behind all below it, with those below it that would close a circle.

    Not recursive: a chain may be long. What is not a key of `below` is left out.
    """
    done: set[Address] = set()
    for root in roots:
        if root in done:
            continue
        path: dict[Address, Iterator[Address]] = {root: iter(below[root])}
        circles: dict[Address, set[Address]] = {}
        while path:
            upper = next(reversed(path))
            lower = next((a for a in path[upper] if a in below and a not in done), None)
            if lower is None:
                path.popitem()
                done.add(upper)
                yield upper, circles.get(upper, set())
            elif lower in path:
                circles.setdefault(upper, set()).add(lower)
            else:
                path[lower] = iter(below[lower])
