"""Blemishes: assigns them to rows in exact shares, and applies them to records."""

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
from headwater.generator.kind import Generated, RecordKind

BLOCK_ROWS = 1_000
"""Shares of an unbounded stream are exact within each block of this many rows."""

MALFORMED_VALUE = b"{........"

_HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)
# Far more than any watermark, and no event time gets out of range.
_LONGEST_LATE_BY = timedelta(days=36_500)


class Blemish(Enum):
    """A defect of a row. The value is the name of its share in `Blemishes`."""

    DUPLICATE = "duplicates"
    MISSING = "missing"
    MALFORMED = "malformed"
    LATE = "late"


@dataclass(frozen=True)
class Blemishes:
    """Shares of blemished rows, in percent of all rows; a row has at most one blemish.

    Attributes:
        duplicates: rows that repeat the last clean row before them, key and value.
        missing: rows that lack one field.
        malformed: rows whose value is `{........`; the key is kept.
        late: rows whose event time is `late_by` earlier than without the blemish.

    Raises:
        InputError: a share is not within 0 to 100, all of them together exceed 100, or
            `late_by` is not a positive number of full seconds.
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
                hint="a row has at most one blemish: lower one of the shares",
                options=names,
            )
        if self.late_by % _SECOND or not _SECOND <= self.late_by <= _LONGEST_LATE_BY:
            raise InputError(
                f"late_by is out of range: {self.late_by}",
                hint=f"full seconds, at most {_LONGEST_LATE_BY.days} days",
                option="late_by",
            )

    def _check_share(self, name: str) -> None:
        value: float = getattr(self, name)
        if not 0 <= value <= 100:
            raise InputError(
                f"{name} is not a share in percent: {value}",
                hint=f"{name} must be a number from 0 to 100",
                option=name,
            )

    def __bool__(self) -> bool:
        """Whether any share is above zero."""
        return any(map(self.share, Blemish))

    def share(self, blemish: Blemish) -> Fraction:
        """The exact decimal share: 0.1 is a tenth, not the nearest float."""
        return Fraction(str(getattr(self, blemish.value)))

    def counts(self, rows: int) -> dict[Blemish, int]:
        """How many of `rows` rows get each blemish: the share, rounded up.

        Duplicates need a clean row to repeat. If the counts do not fit, the largest count is
        reduced by one, the first among equals, until they do.
        """
        counts = {blemish: ceil(rows * self.share(blemish) / 100) for blemish in Blemish}
        while sum(counts.values()) + (counts[Blemish.DUPLICATE] > 0) > rows:
            counts[max(counts, key=counts.__getitem__)] -= 1
        return counts


def blemished(
    kind: RecordKind,
    clean: Iterator[Generated],
    rows: int | None,
    blemishes: Blemishes,
    random: Random,
) -> Iterator[Generated]:
    """Apply blemishes to a stream. Each row except duplicates consumes one record of `clean`."""
    last: Generated = (None, b"")
    for blemish in assign(rows, blemishes, random):
        if blemish is None:
            last = next(clean)
            yield last
        elif blemish is Blemish.DUPLICATE:
            yield last
        else:
            key, value = next(clean)
            yield key, _apply(kind, value, blemish, blemishes.late_by, random)


def assign(rows: int | None, blemishes: Blemishes, random: Random) -> Iterator[Blemish | None]:
    """Yield the blemish of each row, or None.

    Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S) with several classes: each row gets
    a blemish with the probability `remaining count / remaining rows`. The counts are exact, and no
    list of positions is stored: the probability is 0 if none remain, and 1 if all rows need one.
    """
    draw = random.random
    has_clean_row = False
    blocks: Iterable[int] = repeat(BLOCK_ROWS) if rows is None else (rows,)
    for block in blocks:
        remaining = blemishes.counts(block)
        blemishes_left = sum(remaining.values())
        for rows_left in range(block, 0, -1):
            point = draw() * rows_left
            blemish = _at(point, remaining) if point < blemishes_left else None
            # A duplicate before the first clean row is postponed; `counts` reserves a clean row.
            if blemish is None or (blemish is Blemish.DUPLICATE and not has_clean_row):
                has_clean_row = True
                yield None
            else:
                remaining[blemish] -= 1
                blemishes_left -= 1
                yield blemish


def _at(point: float, remaining: dict[Blemish, int]) -> Blemish | None:
    """The blemish at a point of the concatenated counts."""
    for blemish, count in remaining.items():
        if point < count:
            return blemish
        point -= count
    return None


def _apply(
    kind: RecordKind, value: bytes, blemish: Blemish, late_by: timedelta, random: Random
) -> bytes:
    if blemish is Blemish.MALFORMED:
        return MALFORMED_VALUE
    fields = json.loads(value)
    if blemish is Blemish.MISSING:
        del fields[pick(random, kind.fields)]
    else:
        time = datetime.fromisoformat(fields[kind.time_field]) - late_by
        fields[kind.time_field] = time.isoformat(timespec=kind.time_precision)
    return json.dumps(fields).encode()
