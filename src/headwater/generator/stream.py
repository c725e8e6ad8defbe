"""The entry point: a stream of one kind, from a seed."""

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
from headwater.generator.kind import Generated, RecordKind
from headwater.generator.visits import VISITS

KINDS: Mapping[str, RecordKind] = MappingProxyType(
    {kind.name: kind for kind in (VISITS, ADS, CLICKS, ARTICLES)}
)

_NO_BLEMISHES = Blemishes()


def generate(
    kind: str, rows: int | None, *, seed: int = 0, blemishes: Blemishes = _NO_BLEMISHES
) -> Iterator[Generated]:
    """Keys and values of `rows` records, or of an unbounded stream if `rows` is None.

    The same arguments produce the same bytes on every machine. Without blemishes, a shorter stream
    is a prefix of a longer one; with them it is not, because shares are relative to `rows`.

    Raises:
        InputError: there is no such kind, or `rows` is negative.
    """
    chosen = KINDS.get(kind)
    if chosen is None:
        raise InputError(
            f"unknown kind of records: {kind!r}", hint=f"known kinds: {', '.join(KINDS)}", kind=kind
        )
    if rows is not None and rows < 0:
        raise InputError(f"rows is negative: {rows}", hint="rows must be 0 or more", option="rows")
    clean = chosen.records(source(kind, seed))
    if not blemishes:
        return islice(clean, rows)
    # A separate source, so that blemishes do not change the clean records.
    return blemished(chosen, clean, rows, blemishes, source(kind, seed, "blemishes"))
