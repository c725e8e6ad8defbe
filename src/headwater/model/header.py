"""The headers of a record that a Headwater job wrote, and the grammar of the `lineage` header.

The order of the headers: first the stamp (`job_name`, `job_version`, `batch_version`, in an order
that each job defines), then `parent_lineage` if the parent has a stamp, then `lineage`, then
headers of other applications (`foreign_headers`); `lineage_dropped_headers` has the number of those
that exceeded the limits. With a compact stamp `lineage` is the only one of them, and the job is
found by its run (`run_record`).

The value of the `lineage` header:

    1 RUN PARENTS[ #ORDINAL][ =RECORD_ID][ >REST]
    2 RUN PARENTS[ #ORDINAL][ =RECORD_ID][ bBATCH][ >REST]
    3 RUN PARENTS[ #ORDINAL][ =RECORD_ID][ bBATCH][ >REST]

    RUN        the run id, a UUID in text form, or `-`
    PARENTS    addresses `topic/partition@offset`, separated by commas; `,+N` follows if N more
               parents are not listed; `-` for a record without parents
    ORDINAL    the number among the records with the same parents; omitted if it is 0
    RECORD_ID  32 hexadecimal digits; present only if parents are not listed
    REST       addresses of the records that list the other parents, separated by commas
    BATCH      the number of the micro-batch

In version 2, an item of PARENTS may also be a range `~topic/partition@first..last`, which contains
parents, and `?` if there may be others. In version 3, which only records that list the parents of
others have, `topic/partition@first..last` is all of these records, up to a thousand parents in one
header. The lowest version that is enough is written.

ASCII, words separated by one space. The first word is the version of this format. Any client with
write access to the topic can write these bytes, so decoding reports an unknown version or a
malformed value and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from headwater.errors import BadAddressError
from headwater.model import Address, AddressRange, Header, Lineage, Record
from headwater.model.address import ADDRESS, RANGE
from headwater.model.run_record import RunLookup

JOB_NAME = "job_name"
JOB_VERSION = "job_version"
BATCH_VERSION = "batch_version"
PARENT_LINEAGE = "parent_lineage"
LINEAGE = "lineage"
DROPPED_HEADERS = "lineage_dropped_headers"

STAMP_HEADERS = (JOB_NAME, JOB_VERSION, BATCH_VERSION)
# A record's own headers come first; headers of its parent with these names are not copied.
OWN_HEADERS = (*STAMP_HEADERS, PARENT_LINEAGE, LINEAGE, DROPPED_HEADERS)

VERSION = "1"
# With ranges, unknown parents or the batch.
VERSION_2 = "2"
# With consecutive parents as one item; the sink writes it (`ParentListing.java`).
VERSION_3 = "3"
# In a header of version 3: a reader makes an address of each, so a short text must not stand for
# any number of them.
MAX_PARENTS_IN_LISTING = 1_000
RANGE_MARK = "~"
MORE_PARENTS = "?"
# Items of PARENTS, of which a range is one, however many records it covers.
# A parent takes about 15 to 30 bytes; Kafka's default limit for a complete record is 1 MB.
MAX_LISTED_PARENTS = 64
MAX_HEADER_BYTES = 64 * 1024
# Of the value, leaving space for the addresses of the records that list the other parents.
MAX_PARENTS_BYTES = 32 * 1024
# Of each value in `parent_lineage`: a stamp of another producer may have any length.
_MAX_STAMP_BYTES = 1024

_RUN = r"-|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ADDRESSES = rf"{ADDRESS}(?:,{ADDRESS})*+"
_ITEM = rf"(?:{ADDRESS}|{RANGE_MARK}{RANGE}|\?)"
_ITEMS = rf"{_ITEM}(?:,{_ITEM})*+"
_LISTING_ITEM = rf"(?:{ADDRESS}(?:\.\.[0-9]{{1,19}})?|{RANGE_MARK}{RANGE}|\?)"
_LISTING = rf"{_LISTING_ITEM}(?:,{_LISTING_ITEM})*+"

# The same grammar for Spark's `rlike` and `regexp_extract`. `*+` is possessive: with `*` Java needs
# a stack frame per parent, and a long header would fail the job with a stack overflow.
_NUMBERED = r"(?:,\+[0-9]{1,18})?(?: #[0-9]{1,18})?(?: =[0-9a-f]{32})?"
HEADER_REGEX = (
    rf"\A(?:1 (?:{_RUN}) (?:-|{_ADDRESSES}){_NUMBERED}"
    rf"|(?:2 (?:{_RUN}) (?:-|{_ITEMS})|3 (?:{_RUN}) (?:-|{_LISTING})){_NUMBERED}"
    rf"(?: b[0-9]{{1,18}})?)(?: >{_ADDRESSES})?\z"
)
RUN_REGEX = r"^[123] (\S+) "
# Group 1 is the result of `identity_of`; empty if the parents are not known exactly.
IDENTITY_REGEX = r"^[123] \S+ ([^>~?\r\n]*?)(?: b[0-9]+)?(?: >.*)?$"
# An identity with one parent: topic, partition and offset, with or without the ordinal.
SINGLE_PARENT_REGEX = r"^([^,]+)/(\d+)@(\d+)(?: #\d+)?$"

_HEADER = re.compile(
    rf"(?P<version>[123]) (?P<run>{_RUN}) (?P<parents>[!-~]+)( #(?P<ordinal>[0-9]{{1,18}}))?"
    r"( =(?P<record_id>[0-9a-f]{32}))?( b(?P<batch>[0-9]{1,18}))?( >(?P<rest>[!-~]+))?"
)
_UNLISTED = re.compile(r"(?P<listed>.*),\+(?P<count>[0-9]{1,18})")


class Unreadable(Enum):
    """Why a header was not decoded."""

    MALFORMED = "malformed"
    OTHER_VERSION = "other version"
    TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class JobStamp:
    """The job, its version and the micro-batch that produced a record."""

    job_name: str
    job_version: str
    batch_version: int

    def headers(self, order: Sequence[str]) -> tuple[Header, ...]:
        """The stamp as headers; each shipped job defines its order."""
        values = {
            JOB_NAME: self.job_name,
            JOB_VERSION: self.job_version,
            BATCH_VERSION: str(self.batch_version),
        }
        return tuple((name, values[name].encode()) for name in order)


@dataclass(frozen=True, slots=True)
class Origin:
    """The decoded headers of a record. Missing or unreadable parts are None."""

    job_name: str | None
    job_version: str | None
    batch_version: int | None
    lineage: Lineage | None
    unreadable: Unreadable | None = None

    @property
    def record_id(self) -> str | None:
        if self.lineage is None or self.job_name is None:
            return None
        return self.lineage.identity(self.job_name)


def origin_of(record: Record, runs: RunLookup | None = None) -> Origin:
    """Decode a record's headers; never raises, except errors of the lookup.

    The first occurrence of a repeated header counts: a job's own headers precede inherited ones.

    Args:
        runs: where the job of a record with a compact stamp is looked up.
    """
    values: dict[str, bytes | None] = {}
    for name, value in record.headers:
        values.setdefault(name, value)
    lineage = decode(values[LINEAGE]) if LINEAGE in values else None
    batch = _number(values.get(BATCH_VERSION))
    if batch is None and isinstance(lineage, Lineage):
        batch = lineage.batch
    job_name, job_version = _text(values.get(JOB_NAME)), _text(values.get(JOB_VERSION))
    if job_name is None and runs is not None and isinstance(lineage, Lineage):
        # The batch in the lineage header is the mark of a compact stamp.
        compact = lineage.batch is not None and lineage.run_id is not None
        run = runs.find(lineage.run_id or "") if compact else None
        if run is not None:
            job_name, job_version = run.job_name, run.job_version
    return Origin(
        job_name,
        job_version,
        batch,
        lineage if isinstance(lineage, Lineage) else None,
        lineage if isinstance(lineage, Unreadable) else None,
    )


def parent_lineage_text(stamp: Sequence[tuple[str, str]]) -> str:
    """The parent's stamp as text for people; `lineage` is the header for programs."""
    texts = [f"{{{name}, {_shortened(value)}}}" for name, value in stamp]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _shortened(text: str) -> str:
    value = text.encode("utf-8", "surrogateescape")
    if len(value) <= _MAX_STAMP_BYTES:
        return text
    return value[:_MAX_STAMP_BYTES].decode("utf-8", "ignore") + "…"


def encode(lineage: Lineage) -> bytes:
    """The value of the `lineage` header."""
    version = VERSION if lineage.exact and lineage.batch is None else VERSION_2
    words = [version, lineage.run_id or "-", _encode_parents(lineage)]
    if lineage.ordinal:
        words.append(f"#{lineage.ordinal}")
    if lineage.record_id is not None:
        words.append(f"={lineage.record_id}")
    if lineage.batch is not None:
        words.append(f"b{lineage.batch}")
    if lineage.rest:
        words.append(">" + ",".join(map(str, lineage.rest)))
    return " ".join(words).encode("ascii")


def _encode_parents(lineage: Lineage) -> str:
    items = [*map(str, lineage.parents), *(f"{RANGE_MARK}{each}" for each in lineage.ranges)]
    if lineage.more_parents:
        items.append(MORE_PARENTS)
    listed = ",".join(items) or "-"
    return f"{listed},+{lineage.unlisted}" if lineage.unlisted else listed


def decode(value: bytes | None) -> Lineage | Unreadable:
    """Decode the value of a `lineage` header; never raises."""
    if value is None:
        return Unreadable.MALFORMED
    if len(value) > MAX_HEADER_BYTES:
        return Unreadable.TOO_LONG
    text = value.decode("ascii", "replace")
    match = _HEADER.fullmatch(text)
    if match is None:
        known = re.match(r"[123] ", text) or not re.match(r"[0-9]{1,4} ", text)
        return Unreadable.MALFORMED if known else Unreadable.OTHER_VERSION
    if match["version"] == VERSION and match["batch"] is not None:
        return Unreadable.MALFORMED
    try:
        items, unlisted = _decode_parents(match["parents"], match["version"])
        rest = tuple(map(Address.parse, match["rest"].split(",") if match["rest"] else []))
    except BadAddressError:
        return Unreadable.MALFORMED
    run = None if match["run"] == "-" else match["run"]
    ordinal = int(match["ordinal"] or 0)
    return Lineage(
        run,
        tuple(item for item in items if isinstance(item, Address)),
        unlisted,
        ordinal,
        match["record_id"],
        rest,
        tuple(item for item in items if isinstance(item, AddressRange)),
        None in items,
        None if match["batch"] is None else int(match["batch"]),
    )


def identity_of(value: bytes) -> str | None:
    """The words between RUN and BATCH or REST: the same in every copy of a record.

    None if the parents are not known exactly: other records may have the same words.
    """
    words = value.decode("ascii", "replace").partition(" ")[2].partition(" ")[2]
    words = words.partition(" >")[0].partition(" b")[0]
    return None if RANGE_MARK in words or MORE_PARENTS in words else words


def _decode_parents(text: str, version: str) -> tuple[list[Address | AddressRange | None], int]:
    """The items, where None stands for parents that are not known; and how many are unlisted."""
    unlisted = 0
    match = _UNLISTED.fullmatch(text)
    if match is not None:
        text, unlisted = match["listed"], int(match["count"])
    if text == "-":
        return [], unlisted
    words = text.split(",")
    if version == VERSION_3:
        return _decode_listing(words), unlisted
    read = Address.parse if version == VERSION else _decode_item
    return [read(word) for word in words], unlisted


def _decode_listing(words: Sequence[str]) -> list[Address | AddressRange | None]:
    items: list[Address | AddressRange | None] = []
    parents = 0
    for word in words:
        # A topic's name may contain two dots.
        if word.startswith(RANGE_MARK) or ".." not in word.rpartition("@")[2]:
            item = _decode_item(word)
            items.append(item)
            parents += isinstance(item, Address)
        else:
            all_ = AddressRange.parse(word)
            parents += all_.size
            if parents <= MAX_PARENTS_IN_LISTING:
                items += all_.addresses()
    if parents > MAX_PARENTS_IN_LISTING:
        raise BadAddressError(f"a header that lists {parents} parents")
    return items


def _decode_item(word: str) -> Address | AddressRange | None:
    if word == MORE_PARENTS:
        return None
    if word.startswith(RANGE_MARK):
        return AddressRange.parse(word.removeprefix(RANGE_MARK))
    return Address.parse(word)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _number(value: bytes | None) -> int | None:
    # Batch ids are not longer than 19 digits, and int() accepts digits of other scripts.
    if value is None or not value.isdigit() or len(value) > 19:
        return None
    return int(value)
