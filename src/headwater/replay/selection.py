"""Which records to replay. All conditions of a selection must hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.errors import InputError
from headwater.model import Address, JobOutput, is_topic_name

# First and last offset, both included.
Range: TypeAlias = tuple[int, int]
# Kafka's own numbers for the two ends.
EARLIEST, LATEST = -2, -1

_FORM = '{"visits":{"0":[0,2],"1":[[5,9],[20,-1]]}}: both ends included, -2 earliest, -1 latest'
_MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on the records of a topic. None and empty values are not conditions."""

    topic: str
    offsets: Mapping[int, tuple[Range, ...]] | None = None
    # Kafka's timestamps, in milliseconds; `until_ms` is not included.
    since_ms: int | None = None
    until_ms: int | None = None
    key: str | None = None
    where: str | None = None
    inputs_of: tuple[Address, ...] = ()
    made_by: JobOutput | None = None

    def __post_init__(self) -> None:
        if not is_topic_name(self.topic):
            raise InputError(f"not a topic name: {self.topic!r}")
        if None not in (self.since_ms, self.until_ms) and self.since_ms >= self.until_ms:  # type: ignore[operator]
            raise InputError("the time window is empty: --since is not before --until")

    @property
    def selects(self) -> bool:
        """Whether there is any condition."""
        lineage = self.inputs_of or self.made_by is not None
        return bool(lineage) or self.offsets is not None or self.filters_rows

    @property
    def filters_rows(self) -> bool:
        """Whether rows must be read to find the selected records: offsets are not enough."""
        return any(
            part is not None for part in (self.since_ms, self.until_ms, self.key, self.where)
        )

    def as_json(self) -> dict[str, Any]:
        """The topic and the conditions on rows, for the plan and its id."""
        return {
            "topic": self.topic,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "key": self.key,
            "where": self.where,
        }


def parse_offsets(text: str) -> tuple[str, dict[int, tuple[Range, ...]]]:
    """Parse `{"topic": {"partition": [first, last]}}`; a partition may have a list of ranges.

    Raises:
        InputError: another format, more than one topic, or numbers that are not offsets.
    """
    try:
        content = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, _RepeatedError) else "not JSON"
        raise _invalid(what, text) from None
    if not isinstance(content, dict) or len(content) != 1:
        raise _invalid("not an object with one topic", text)
    ((topic, partitions),) = content.items()
    if not is_topic_name(topic):
        raise _invalid(f"not a topic name: {topic!r}", text)
    if not isinstance(partitions, dict) or not partitions:
        raise _invalid("the topic has no partitions", text)
    return topic, {_partition(name, text): _ranges(of, text) for name, of in partitions.items()}


class _RepeatedError(ValueError):
    """A JSON object with a repeated key, of which Python would silently take the last."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _RepeatedError("a topic or a partition is named twice")
    return content


def _partition(name: str, text: str) -> int:
    # Leading zeros are refused: the same partition could be named twice.
    valid = name.isascii() and name.isdigit() and str(int(name[:11])) == name
    if not valid or int(name) >= 2**31:
        raise _invalid(f"not a partition: {name!r}", text)
    return int(name)


def _ranges(value: Any, text: str) -> tuple[Range, ...]:
    pairs = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    return tuple(check_range(pair, text) for pair in pairs)


def check_range(pair: Any, text: str) -> Range:
    """Two numbers as a range of offsets, both ends included.

    Raises:
        InputError: not a range; `text` is the value of the option.
    """
    # `True` is an int in Python, but not an offset.
    numbers = isinstance(pair, list) and all(type(number) is int for number in pair)
    if not numbers or len(pair) != 2:
        raise _invalid(f"not a range of offsets: {json.dumps(pair)}", text)
    first, last = pair
    if not all(EARLIEST <= number <= _MAX_OFFSET for number in pair):
        raise _invalid(f"not an offset: {min(pair) if min(pair) < EARLIEST else max(pair)}", text)
    if first >= 0 and 0 <= last < first:
        raise _invalid(f"the range is empty: {first} is after {last}", text)
    return first, last


def _invalid(what: str, text: str) -> InputError:
    return InputError(f"offsets: {what}", hint=f"such as {_FORM}", value=text)
