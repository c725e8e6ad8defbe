"""Searches the records of ranges from which a transform makes a given record.

Pure: the transform is a function that is run on parts of the records (`Trials`). Two cases:

- Record by record. Parts are split until they are single records, as long as the outputs of a part
  are those of its parts together. This is a proof for the parts that make the record, so single
  records that make it are its parents, or several are candidates.
- Otherwise the transform depends on several records. A smallest set that makes the record is
  searched (delta debugging): no record can be removed from it, and without any one of them, all
  others together do not make it. If they do, the set is not the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

# Of a part; each is a task of one Spark job.
_FAN_OUT = 16
# Shown; duplicates of an input may be many.
_MAX_CANDIDATES = 100

# Positions of records, ascending.
Part = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The outputs of a part: how many of them equal the record, and a checksum of all."""

    made: int
    outputs: int
    checksum: int

    def __add__(self, other: TrialResult) -> TrialResult:
        return TrialResult(
            self.made + other.made, self.outputs + other.outputs, self.checksum + other.checksum
        )


class Trials(Protocol):
    """Runs a transform on parts of the records."""

    # Whether the outputs of one task depend on the records of that task only.
    isolated: bool

    def run(self, parts: Sequence[Part]) -> list[TrialResult]: ...


@dataclass(frozen=True, slots=True)
class Found:
    """The result: positions of parents, or of candidates, or why neither."""

    parents: Part = ()
    candidates: Part = ()
    reason: str | None = None
    by_record: bool = False


class _NotFound(Exception):
    """Ends the search with a reason."""


class _Counted:
    """Trials, up to a limit."""

    def __init__(self, trials: Trials, max_runs: int) -> None:
        self._trials = trials
        self._left = self._max = max_runs

    def run(self, parts: Sequence[Part]) -> list[TrialResult]:
        self._left -= len(parts)
        if self._left < 0:
            raise _NotFound(f"the limit of {self._max} runs of the transform is reached")
        return self._trials.run(parts)

    def first_that_makes_it(self, parts: Sequence[Part]) -> Part | None:
        # Tasks of one job, if possible; otherwise each part is a job.
        size = _FAN_OUT if self._trials.isolated else 1
        for begin in range(0, len(parts), size):
            some = parts[begin : begin + size]
            for part, result in zip(some, self.run(some), strict=True):
                if result.made:
                    return part
        return None


def find_parents(tasks: Sequence[Part], trials: Trials, max_runs: int) -> Found:
    """The records from which the transform makes the record.

    Args:
        tasks: the records by topic and partition, as the tasks of the job had them.
    """
    counted = _Counted(trials, max_runs)
    try:
        if trials.isolated:
            return _isolated(tasks, counted)
        everything = tuple(sorted(position for task in tasks for position in task))
        _reproduced([everything], counted)
        return _smallest_sets(everything, counted)
    except _NotFound as error:
        return Found(reason=str(error))


def _isolated(tasks: Sequence[Part], trials: _Counted) -> Found:
    active = _reproduced(tasks, trials)
    singles: list[int] = []
    while active:
        singles += [part[0] for part, _ in active if len(part) == 1]
        split = [
            (part, expected, _parts(part, _FAN_OUT)) for part, expected in active if len(part) > 1
        ]
        results = iter(trials.run([each for _, _, parts in split for each in parts]))
        active = []
        for part, expected, parts in split:
            each = [(smaller, next(results)) for smaller in parts]
            total = TrialResult(0, 0, 0)
            for _, result in each:
                total += result
            if total != expected:
                if len(split) + len(singles) > 1:
                    raise _NotFound(
                        "several parts of the ranges make it, and the transform depends on "
                        "several records"
                    )
                return _smallest_sets(part, trials)
            active += [(smaller, result) for smaller, result in each if result.made]
    if len(singles) == 1:
        return Found(parents=(singles[0],), by_record=True)
    return Found(candidates=tuple(sorted(singles)[:_MAX_CANDIDATES]), by_record=True)


def _reproduced(parts: Sequence[Part], trials: _Counted) -> list[tuple[Part, TrialResult]]:
    """The parts that make the record, the same each time."""
    first, second = trials.run(parts), trials.run(parts)
    if first != second:
        raise _NotFound("the transform is not deterministic: two runs on the same records differ")
    made = [(part, result) for part, result in zip(parts, first, strict=True) if result.made]
    if not made:
        raise _NotFound(
            "the transform does not make it from the records of its ranges: another version of "
            "the job did, or it depends on something else, such as state"
        )
    return made


def _smallest_sets(everything: Part, trials: _Counted) -> Found:
    (nothing,) = trials.run([()])
    if nothing.made:
        raise _NotFound("the transform makes it without any record")
    candidates: list[int] = []
    remaining = everything
    while True:
        found = _smallest_set(remaining, trials)
        others = [_without(everything, (each,)) for each in found]
        makes_it = trials.first_that_makes_it(others) is not None
        if not makes_it and not candidates:
            return Found(parents=found)
        if len(found) > 1:
            raise _NotFound("several sets of records make it")
        candidates += found
        remaining = _without(remaining, found)
        if len(candidates) == _MAX_CANDIDATES or not trials.run([remaining])[0].made:
            return Found(candidates=tuple(sorted(candidates)))


def _smallest_set(part: Part, trials: _Counted) -> Part:
    """A part of a part that makes the record, from which no record can be removed."""
    count = 2
    while len(part) > 1:
        parts = _parts(part, count)
        smaller = trials.first_that_makes_it(parts)
        if smaller is not None:
            part, count = smaller, 2
            continue
        # With two parts, each is what remains without the other.
        rest = [_without(part, each) for each in parts] if count > 2 else []
        smaller = trials.first_that_makes_it(rest)
        if smaller is not None:
            part, count = smaller, max(count - 1, 2)
        elif count >= len(part):
            return part
        else:
            count = min(count * 2, len(part))
    return part


def _parts(part: Part, count: int) -> list[Part]:
    """At most `count` parts of nearly the same size, none empty."""
    count = min(count, len(part))
    ends = [len(part) * number // count for number in range(count + 1)]
    return [part[begin:end] for begin, end in pairwise(ends)]


def _without(part: Part, removed: Part) -> Part:
    gone = set(removed)
    return tuple(each for each in part if each not in gone)
