"""The way in: a stream of one kind, from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType

from headwater.errors import InputError
from headwater.generator.ads import ADS
from headwater.generator.articles import ARTICLES
from headwater.generator.blemishes import Blemishes, blemished
from headwater.generator.clicks import CLICKS
from headwater.generator.draws import source
from headwater.generator.kind import Generated, Kind
from headwater.generator.visits import VISITS

KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: kind for kind in (VISITS, ADS, CLICKS, ARTICLES)}
)

_NO_BLEMISHES = Blemishes()


def generate(
    kind: str, rows: int | None, *, seed: int = 0, blemishes: Blemishes = _NO_BLEMISHES
) -> Iterator[Generated]:
    """Key and value of `rows` records, or of endless ones where `rows` is None.

    The same arguments give the same bytes, on every machine. Without blemishes a shorter
    stream is the beginning of a longer one; with them it is not, as the shares are of `rows`.

    Raises:
        InputError: there is no such kind, or `rows` is negative.
    """
    chosen = KINDS.get(kind)
    if chosen is None:
        raise InputError(
            f"unknown kind of records: {kind!r}", hint=f"kinds are {', '.join(KINDS)}", kind=kind
        )
    if rows is not None and rows < 0:
        raise InputError(f"rows is negative: {rows}", hint="give rows as 0 or more", option="rows")
    clean = chosen.records(source(kind, seed))
    if not blemishes:
        return islice(clean, rows)
    # A source of its own, so that blemishes don't change the records they are put on.
    return blemished(chosen, clean, rows, blemishes, source(kind, seed, "blemishes"))
