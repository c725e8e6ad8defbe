"""Asserts what a record was made from.

assert_lineage("visits-decorated/0@3", parents=["visits/0@3"], job_name="visits_decorator")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from headwater.kafka import KafkaRuns, RecordReader
from headwater.model import Address, Record
from headwater.model.header import Origin, origin_of
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
    """Fail with a list of differences unless a record's lineage is as expected.

    Arguments that are None are not checked; `parents=[]` expects no parents. Parents that the
    header counts and does not list, and parents within ranges, are a difference.

    Args:
        record: the record, or the address to read it from.
        ordered: the parents must be in this order.
        settings: of the broker; by default those of this process.
    """
    settings = settings or load()
    if not isinstance(record, Record):
        record = _fetch(record, settings)
    origin = origin_of(record, KafkaRuns(settings.kafka))
    differences = [
        *_parent_differences(origin, parents, ordered),
        *_text_difference("job_name", origin.job_name, job_name),
        *_text_difference("job_version", origin.job_version, job_version),
    ]
    if differences:
        lines = "\n  ".join(differences)
        raise AssertionError(f"the lineage of {record.address} is not as expected:\n  {lines}")


def _fetch(location: Address | str, settings: Settings) -> Record:
    address = Address.parse(location) if isinstance(location, str) else location
    with RecordReader(settings.kafka) as reader:
        fetched = reader.fetch(address)
    if isinstance(fetched, Record):
        return fetched
    raise AssertionError(f"there is no record at {address}: {fetched.value}")


def _parent_differences(
    origin: Origin, parents: Iterable[Address | str] | None, ordered: bool
) -> Iterator[str]:
    if parents is None:
        return
    expected = [Address.parse(parent) if isinstance(parent, str) else parent for parent in parents]
    if origin.unreadable is not None:
        yield f"its lineage header is not readable: {origin.unreadable.value}"
    elif origin.lineage is None and expected:
        yield "it has no lineage header"
    actual = list(origin.lineage.parents) if origin.lineage else []
    for parent in (Counter(expected) - Counter(actual)).elements():
        yield f"missing parent: {parent}"
    for parent in (Counter(actual) - Counter(expected)).elements():
        yield f"unexpected parent: {parent}"
    for within in origin.lineage.ranges if origin.lineage else ():
        yield f"parents within {within}"
    if origin.lineage is not None and origin.lineage.more_parents:
        yield "it may have more parents, which are not known"
    if origin.lineage is not None and origin.lineage.unlisted:
        yield f"{origin.lineage.unlisted} more parents, which the header does not list"
    if ordered and actual != expected and Counter(actual) == Counter(expected):
        yield f"parents in another order: {', '.join(map(str, actual))}"


def _text_difference(name: str, actual: str | None, expected: str | None) -> Iterator[str]:
    if expected is not None and actual != expected:
        yield f"{name}: {actual!r}, not {expected!r}"
