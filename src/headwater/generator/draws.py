"""Random draws that give the same bytes on every Python.

They use `random()` and `getrandbits()` only: of the other methods (`choice`, `randrange`, …)
Python does not promise that a seed keeps its sequence from one release to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")


def source(*seeds: str | int) -> Random:
    """A random source of its own for these seeds.

    Seeded with text, because a whole number loses its sign: -1 would give the bytes of 1.
    """
    return Random("/".join(map(str, seeds)))  # noqa: S311 - test data, not a secret


def pick(random: Random, options: Sequence[T]) -> T:
    """One of the options, each as likely as the others."""
    return options[int(random.random() * len(options))]


def between(random: Random, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + int(random.random() * (high - low + 1))


def uuid4(random: Random) -> str:
    """Text in the form of a version 4 UUID."""
    return str(UUID(int=random.getrandbits(128), version=4))
