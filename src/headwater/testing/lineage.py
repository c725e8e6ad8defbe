"""Stating what a record was made from.

assert_lineage("visits-decorated/0@3", parents=["visits/0@3"], job_name="visits_decorator")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from headwater.kafka import RecordReader
from headwater.model import Address, Record
from headwater.model.headers import Origin, origin_of
from headwater.settings import Settings, load


def assert_lineage(
    record: Record | Address | str,
    *,
    parents: Iterable[Address | str] | None = None,
    job_name: str | None = None,
    job_version: str | None = None,
    ordered: bool = False,
    settings: Settings | None = None,
) -> None:
    """Fail with a list of the differences unless a record's lineage is as stated.

    What is None is not looked at; `parents=[]` states that there are none. A header that counts
    parents without listing them is a difference: what can't be read can't be stated.

    Args:
        record: the record, or its address, from which it is read.
        ordered: the parents have to come in this order.
        settings: of the broker that holds the record; default: those of this process.
    """
    if not isinstance(record, Record):
        record = _fetch(record, settings or load())
    origin = origin_of(record)
    differences = [
        *_parent_differences(origin, parents, ordered),
        *_text_difference("job_name", origin.job_name, job_name),
        *_text_difference("job_version", origin.job_version, job_version),
    ]
    if differences:
        lines = "\n  ".join(differences)
        raise AssertionError(f"the lineage of {record.address} is not as stated:\n  {lines}")


def _fetch(place: Address | str, settings: Settings) -> Record:
    address = Address.parse(place) if isinstance(place, str) else place
    with RecordReader(settings.kafka) as reader:
        found = reader.fetch(address)
    if isinstance(found, Record):
        return found
    raise AssertionError(f"there is no record at {address}: {found.value}")


def _parent_differences(
    origin: Origin, parents: Iterable[Address | str] | None, ordered: bool
) -> Iterator[str]:
    if parents is None:
        return
    stated = [Address.parse(parent) if isinstance(parent, str) else parent for parent in parents]
    if origin.unreadable is not None:
        yield f"its lineage header is not readable: {origin.unreadable.value}"
    elif origin.lineage is None and stated:
        yield "it has no lineage header"
    found = list(origin.lineage.parents) if origin.lineage else []
    for parent in (Counter(stated) - Counter(found)).elements():
        yield f"missing parent: {parent}"
    for parent in (Counter(found) - Counter(stated)).elements():
        yield f"parent that was not stated: {parent}"
    if origin.lineage is not None and origin.lineage.unlisted:
        yield f"{origin.lineage.unlisted} more parents, which the header does not list"
    if ordered and found != stated and Counter(found) == Counter(stated):
        yield f"parents in another order: {', '.join(map(str, found))}"


def _text_difference(name: str, found: str | None, stated: str | None) -> Iterator[str]:
    if stated is not None and found != stated:
        yield f"{name}: {found!r}, not {stated!r}"
