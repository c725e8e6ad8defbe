"""The `lineage` header, byte for byte.

    1 RUN PARENTS[ #ORDINAL][ =RECORD_ID][ >REST]

    RUN        the id of the run, a UUID in text form, or `-`
    PARENTS    addresses `topic/partition@offset`, separated by commas; `,+N` behind them when N
               more parents are not listed; `-` for a record without parents
    ORDINAL    the place among the records made from the same parents; left out when it is 0
    RECORD_ID  32 hexadecimal digits; there only when parents are not listed
    REST       addresses of the records that list the other parents, separated by commas

ASCII, words separated by one space. The first word is the version of this form. A reader that
meets another version, or anything else that does not fit, says so and goes on: the bytes come
from whoever may write to the topic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from headwater.errors import BadAddressError
from headwater.model import Address, Lineage

VERSION = "1"
# A parent takes some 15 to 30 bytes; Kafka's default limit for a whole record is 1 MB.
MAX_LISTED_PARENTS = 64
MAX_HEADER_BYTES = 64 * 1024

_RUN = r"-|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HEADER = re.compile(
    rf"1 (?P<run>{_RUN}) (?P<parents>[!-~]+)( #(?P<ordinal>[0-9]{{1,18}}))?"
    r"( =(?P<record_id>[0-9a-f]{32}))?( >(?P<rest>[!-~]+))?"
)
_UNLISTED = re.compile(r"(?P<listed>.*),\+(?P<count>[0-9]{1,18})")


class Unreadable(Enum):
    """Why a header was not decoded."""

    MALFORMED = "malformed"
    OTHER_VERSION = "other version"
    TOO_LONG = "too long"


def encode(lineage: Lineage) -> bytes:
    """The header's value."""
    words = [VERSION, lineage.run_id or "-", encode_parents(lineage.parents, lineage.unlisted)]
    if lineage.ordinal:
        words.append(f"#{lineage.ordinal}")
    if lineage.record_id is not None:
        words.append(f"={lineage.record_id}")
    if lineage.rest:
        words.append(">" + ",".join(map(str, lineage.rest)))
    return " ".join(words).encode("ascii")


def encode_parents(parents: Sequence[Address], unlisted: int = 0) -> str:
    """The word for the parents."""
    listed = ",".join(map(str, parents)) or "-"
    return f"{listed},+{unlisted}" if unlisted else listed


def decode(value: bytes | None) -> Lineage | Unreadable:
    """Read the header's value; never raises, whatever the bytes are."""
    if value is None:
        return Unreadable.MALFORMED
    if len(value) > MAX_HEADER_BYTES:
        return Unreadable.TOO_LONG
    text = value.decode("ascii", "replace")
    match = _HEADER.fullmatch(text)
    if match is None:
        known = text.startswith(f"{VERSION} ") or not re.match(r"[0-9]{1,4} ", text)
        return Unreadable.MALFORMED if known else Unreadable.OTHER_VERSION
    try:
        parents, unlisted = _decode_parents(match["parents"])
        rest = match["rest"].split(",") if match["rest"] else []
        elsewhere = tuple(map(Address.parse, rest))
    except BadAddressError:
        return Unreadable.MALFORMED
    run = None if match["run"] == "-" else match["run"]
    ordinal = int(match["ordinal"] or 0)
    return Lineage(run, parents, unlisted, ordinal, match["record_id"], elsewhere)


def identity_of(value: bytes) -> str:
    """The words behind the run and before the rest: the same in every copy of a record."""
    words = value.decode("ascii", "replace").partition(" ")[2].partition(" ")[2]
    return words.partition(" >")[0]


def _decode_parents(text: str) -> tuple[tuple[Address, ...], int]:
    unlisted = 0
    match = _UNLISTED.fullmatch(text)
    if match is not None:
        text, unlisted = match["listed"], int(match["count"])
    if text == "-":
        return (), unlisted
    return tuple(Address.parse(word) for word in text.split(",")), unlisted
