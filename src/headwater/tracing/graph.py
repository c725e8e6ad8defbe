"""Orders claimed edges so that each record comes after those it depends on; cuts cycles.

Any client that may write to a topic can claim that a record is its own ancestor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from headwater.model import Address


def bottom_up(
    roots: Iterable[Address], below: Mapping[Address, Collection[Address]]
) -> Iterator[tuple[Address, set[Address]]]:
    """Each address once, after all below it, with those below it that would close a cycle.

    Not recursive: a chain may be long. Addresses that are not keys of `below` are left out.
    """
    done: set[Address] = set()
    for root in roots:
        if root in done:
            continue
        path: dict[Address, Iterator[Address]] = {root: iter(below[root])}
        cycles: dict[Address, set[Address]] = {}
        while path:
            upper = next(reversed(path))
            lower = next((a for a in path[upper] if a in below and a not in done), None)
            if lower is None:
                path.popitem()
                done.add(upper)
                yield upper, cycles.get(upper, set())
            elif lower in path:
                cycles.setdefault(upper, set()).add(lower)
            else:
                path[lower] = iter(below[lower])
