"""Blemishes: which rows get one, in exact shares, and what each of them does to a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from fractions import Fraction
from itertools import repeat
from math import ceil
from random import Random

from headwater.errors import InputError
from headwater.generator.draws import pick
from headwater.generator.kind import Generated, Kind

BLOCK_ROWS = 1_000
"""Shares of an endless stream are exact within each block of that many rows."""

MALFORMED_VALUE = b"{........"

_HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)
# Far more than any watermark waits, and no event time leaves the calendar.
_LONGEST_LATE_BY = timedelta(days=36_500)


class Blemish(Enum):
    """What can be wrong with a row. The value is the name of its share in `Blemishes`."""

    DUPLICATE = "duplicates"
    MISSING = "missing"
    MALFORMED = "malformed"
    LATE = "late"


@dataclass(frozen=True)
class Blemishes:
    """Shares of blemished rows, in percent of all rows; a row has one blemish at most.

    Attributes:
        duplicates: rows that repeat the last clean row before them, key and value.
        missing: rows that lack one field.
        malformed: rows whose value is `{........`; the key is kept.
        late: rows whose event time lies `late_by` earlier than it would.

    Raises:
        InputError: a share is not within 0 to 100, all of them together exceed 100, or
            `late_by` is not a positive number of whole seconds.
    """

    duplicates: float = 0
    missing: float = 0
    malformed: float = 0
    late: float = 0
    late_by: timedelta = _HOUR

    def __post_init__(self) -> None:
        for blemish in Blemish:
            self._check_share(blemish.value)
        total = sum(map(self.share, Blemish))
        if total > 100:
            names = [blemish.value for blemish in Blemish if self.share(blemish)]
            raise InputError(
                f"{' + '.join(names)} exceed 100 percent: {float(total):.10g}",
                hint="a row has one blemish at most: lower one of the shares",
                options=names,
            )
        if self.late_by % _SECOND or not _SECOND <= self.late_by <= _LONGEST_LATE_BY:
            raise InputError(
                f"late_by is not a time that a row can be late by: {self.late_by}",
                hint=f"whole seconds, at most {_LONGEST_LATE_BY.days} days",
                option="late_by",
            )

    def _check_share(self, name: str) -> None:
        value: float = getattr(self, name)
        if not 0 <= value <= 100:
            raise InputError(
                f"{name} is not a share in percent: {value}",
                hint=f"give {name} a number from 0 to 100",
                option=name,
            )

    def __bool__(self) -> bool:
        """Whether any blemish is asked for."""
        return any(map(self.share, Blemish))

    def share(self, blemish: Blemish) -> Fraction:
        """The share as it was written: 0.1 is a tenth, not the float next to it."""
        return Fraction(str(getattr(self, blemish.value)))

    def counts(self, rows: int) -> dict[Blemish, int]:
        """How many of `rows` rows get each blemish: the share, rounded up.

        Duplicates need a clean row to repeat. Where there is no room for all, the largest
        count gives way by one, the first named among equals, until there is.
        """
        counts = {blemish: ceil(rows * self.share(blemish) / 100) for blemish in Blemish}
        while sum(counts.values()) + (counts[Blemish.DUPLICATE] > 0) > rows:
            counts[max(counts, key=counts.__getitem__)] -= 1
        return counts


def blemished(
    kind: Kind, clean: Iterator[Generated], rows: int | None, blemishes: Blemishes, random: Random
) -> Iterator[Generated]:
    """Put blemishes on a stream. All rows but duplicates take one record of `clean` each."""
    last: Generated = (None, b"")
    for blemish in deal(rows, blemishes, random):
        if blemish is None:
            last = next(clean)
            yield last
        elif blemish is Blemish.DUPLICATE:
            yield last
        else:
            key, value = next(clean)
            yield key, _spoil(kind, value, blemish, blemishes.late_by, random)


def deal(rows: int | None, blemishes: Blemishes, random: Random) -> Iterator[Blemish | None]:
    """Tell for one row after the other which blemish it gets.

    Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S) with several classes: each row gets
    a blemish with the chance `left of it / rows to come`. No list of positions is kept, and
    the counts are exact: none left means no chance, as many left as rows to come a sure one.
    """
    draw = random.random
    anything_to_repeat = False
    blocks: Iterable[int] = repeat(BLOCK_ROWS) if rows is None else (rows,)
    for block in blocks:
        left = blemishes.counts(block)
        to_blemish = sum(left.values())
        for to_come in range(block, 0, -1):
            point = draw() * to_come
            blemish = _at(point, left) if point < to_blemish else None
            # `counts` left room for a clean row: until it has come, a duplicate gives its
            # place to it and is dealt later.
            if blemish is None or (blemish is Blemish.DUPLICATE and not anything_to_repeat):
                anything_to_repeat = True
                yield None
            else:
                left[blemish] -= 1
                to_blemish -= 1
                yield blemish


def _at(point: float, left: dict[Blemish, int]) -> Blemish | None:
    """The blemish in whose stretch the point lies, with the stretches laid end to end."""
    for blemish, count in left.items():
        if point < count:
            return blemish
        point -= count
    return None


def _spoil(kind: Kind, value: bytes, blemish: Blemish, late_by: timedelta, random: Random) -> bytes:
    if blemish is Blemish.MALFORMED:
        return MALFORMED_VALUE
    fields = json.loads(value)
    if blemish is Blemish.MISSING:
        del fields[pick(random, kind.fields)]
    else:
        time = datetime.fromisoformat(fields[kind.time_field]) - late_by
        fields[kind.time_field] = time.isoformat(timespec=kind.time_precision)
    return json.dumps(fields).encode()
