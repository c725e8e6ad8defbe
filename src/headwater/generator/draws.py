"""Random draws that produce the same bytes with every Python version.

They only use `random()` and `getrandbits()`: for the other methods (`choice`, `randrange`, …)
Python does not guarantee the same sequence in every release.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")


def source(*seeds: str | int) -> Random:
    """A separate random source for these seeds.

    Seeded with text, because the sign of an integer seed is ignored: -1 would equal 1.
    """
    return Random("/".join(map(str, seeds)))  # noqa: S311 - test data, not a secret


def pick(random: Random, options: Sequence[T]) -> T:
    """One of the options, with equal probability."""
    return options[int(random.random() * len(options))]


def between(random: Random, low: int, high: int) -> int:
    """An integer from `low` to `high`, inclusive."""
    return low + int(random.random() * (high - low + 1))


def uuid4(random: Random) -> str:
    """A version 4 UUID as text."""
    return str(UUID(int=random.getrandbits(128), version=4))
