"""The identity of a record: topic, partition, offset; written `visits/0@17`. A range of records is
written `visits/0@3..17`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.errors import BadAddressError
from headwater.model.topic_names import TOPIC_NAME, is_topic_name

# The one grammar of addresses; without lookarounds, so that Arrow's RE2 accepts it as well.
ADDRESS = rf"{TOPIC_NAME}/[0-9]{{1,10}}@[0-9]{{1,19}}"
ADDRESS_PATTERN = rf"(?P<topic>{TOPIC_NAME})/(?P<partition>[0-9]{{1,10}})@(?P<offset>[0-9]{{1,19}})"
_ADDRESS = re.compile(ADDRESS_PATTERN)
# Both ends are included. Arrow's RE2 accepts these as well.
RANGE = rf"{ADDRESS}\.\.[0-9]{{1,19}}"
RANGE_PATTERN = rf"{ADDRESS_PATTERN}\.\.(?P<last>[0-9]{{1,19}})"
_RANGE = re.compile(RANGE_PATTERN)

_MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """The position of a record. Ordered by topic, partition and offset."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, value: Address | str) -> Address:
        """The address itself, or the one that the text contains."""
        return cls.parse(value) if isinstance(value, str) else value

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `topic/partition@offset`.

        Raises:
            BadAddressError: `text` has another form, or numbers out of Kafka's range.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise BadAddressError(
                f"not an address: {text!r}",
                hint="an address is `topic/partition@offset`, such as `visits/0@17`",
                value=text,
            )
        topic = match["topic"]
        address = cls(topic, int(match["partition"]), int(match["offset"]))
        if not is_topic_name(topic):
            raise BadAddressError(f"not a topic name: {topic!r}", value=text)
        if address.partition > _MAX_PARTITION or address.offset > MAX_OFFSET:
            raise BadAddressError(f"partition or offset out of range: {text!r}", value=text)
        return address

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True, order=True)
class AddressRange:
    """Records `first` to `last` of a partition, both included."""

    topic: str
    partition: int
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> AddressRange:
        """Read `topic/partition@first..last`.

        Raises:
            BadAddressError: `text` has another form, numbers out of Kafka's range, or a last record
                before the first.
        """
        match = _RANGE.fullmatch(text)
        if match is None:
            raise BadAddressError(f"not a range of addresses: {text!r}", value=text)
        begin = Address.parse(text.rpartition("..")[0])
        last = int(match["last"])
        if not begin.offset <= last <= MAX_OFFSET:
            raise BadAddressError(f"the range is empty or out of range: {text!r}", value=text)
        return cls(begin.topic, begin.partition, begin.offset, last)

    @property
    def size(self) -> int:
        """Number of offsets; compaction and transactions leave some of them without a record."""
        return self.last - self.first + 1

    def addresses(self) -> Iterator[Address]:
        """All addresses, in order; a range in a header can have any size."""
        for offset in range(self.first, self.last + 1):
            yield Address(self.topic, self.partition, offset)

    def __contains__(self, address: object) -> bool:
        return (
            isinstance(address, Address)
            and (address.topic, address.partition) == (self.topic, self.partition)
            and self.first <= address.offset <= self.last
        )

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.first}..{self.last}"
