"""Jobs around a node, level by level: those that share a dataset, then those that share one with
them. Each job is visited once, so that circles end; a walk that grows too large is cut."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from uuid import UUID

Neighbours = Callable[[Collection[UUID]], Awaitable[Collection[UUID]]]


@dataclass(slots=True)
class Walk:
    """Which jobs were reached, and whether there were more."""

    jobs: set[UUID] = field(default_factory=set)
    truncated: bool = False


async def walk(
    start: Collection[UUID],
    neighbours: Neighbours,
    *,
    depth: int,
    most: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Walk:
    """Follow `neighbours` for `depth` levels.

    Ends early, with `truncated`, at `most` jobs or after `seconds`: whatever graph is stored and
    whatever depth is asked for, an answer is bounded.
    """
    found = Walk()
    end = clock() + seconds
    level = sorted(set(start))
    for step in range(depth + 1):
        room = most - len(found.jobs)
        if len(level) > room:
            found.truncated = True
        found.jobs.update(level[:room])
        if not level or step == depth or found.truncated:
            break
        if clock() > end:
            found.truncated = True
            break
        # Sorted, so that what is cut off is the same each time.
        level = sorted(set(await neighbours(level)) - found.jobs)
    return found
