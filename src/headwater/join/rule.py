"""The rule of a join: which records match, and until when a record waits for its match.

Spark keeps a record in its state until the watermark shows that no match can come. The watermark
is the newest event time of a side minus a delay; the lower one of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, get_args

from headwater.errors import InputError
from headwater.join.spans import not_negative, span_text
from headwater.model.topic_names import is_topic_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

How = Literal["inner", "left_outer", "right_outer", "full_outer"]
HOW: tuple[str, ...] = get_args(How)
Matches = Literal["all", "first", "nearest"]
MATCHES: tuple[str, ...] = get_args(Matches)

_TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class JoinSide:
    """One input of a `WatermarkJoin`.

    Args:
        topic: the input topic.
        fields: name and Spark type of each field of the value that the join reads, such as
            `{"order_id": "string", "ordered_at": "timestamp", "amount": "double"}`.
        key: the field, or fields, that must be equal on both sides; in the order of the other side.
        time: the field with the event time, of type `timestamp`.
        watermark: how much older than the newest record of the topic a record may be.
        required: fields without which a record is malformed, in addition to key and time.
        parse: for values that are not JSON: takes rows of `LineageJob.read`, and returns them with
            a column `data`, a struct with the fields, and optionally `error`, as `parse_json` does.
        name: the label `side` in metrics. Default: the topic.
    """

    topic: str
    fields: Mapping[str, str]
    key: str | Sequence[str]
    time: str
    watermark: str | timedelta = "10 minutes"
    required: Sequence[str] = ()
    parse: Callable[[DataFrame], DataFrame] | None = field(default=None, compare=False)
    name: str | None = None

    def __post_init__(self) -> None:
        if not is_topic_name(self.topic):
            raise InputError(f"not a topic name: {self.topic!r}")
        for what, names in (
            ("key", self.keys),
            ("time", (self.time,)),
            ("required", tuple(self.required)),
        ):
            missing = [each for each in names if each not in self.fields]
            if missing:
                raise InputError(
                    f"{what} of topic {self.topic!r}: `fields` has no {missing[0]!r}: "
                    f"{', '.join(self.fields)}",
                    hint="add it to `fields`, with its Spark type",
                )
        if not self.keys:
            raise InputError(
                f"key of topic {self.topic!r} is empty", hint="name at least one field"
            )
        if self.fields[self.time] != _TIMESTAMP:
            raise InputError(
                f"time of topic {self.topic!r}: field {self.time!r} is of type "
                f"{self.fields[self.time]}, not {_TIMESTAMP}",
                hint="a timestamp in JSON is a text; for numbers set `parse`",
            )
        _ = self.delay

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields of the key."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def delay(self) -> timedelta:
        """The watermark delay."""
        return not_negative(self.watermark, f"watermark of topic {self.topic!r}")

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields that a record must have to be joined, in the order of `fields`."""
        names = {*self.keys, self.time, *self.required}
        return tuple(each for each in self.fields if each in names)

    @property
    def label(self) -> str:
        """The name of the side in metrics."""
        return self.name or self.topic


@dataclass(frozen=True)
class JoinRule:
    """A record of the right topic matches a record of the left one with the same key if its time is
    within bounds, relative to the time of the left record, both included."""

    left: JoinSide
    right: JoinSide
    lower: timedelta
    upper: timedelta
    how: How = "inner"
    matches: Matches = "all"

    def __post_init__(self) -> None:
        left, right = self.left, self.right
        if left.topic == right.topic:
            raise InputError(
                f"a topic can't be joined with itself: {left.topic!r}",
                hint="copy one side to another topic first",
            )
        for what, value, known in (("how", self.how, HOW), ("matches", self.matches, MATCHES)):
            if value not in known:
                raise InputError(f"{what}: {value!r} is not one of {', '.join(known)}")
        if self.lower > self.upper:
            raise InputError(
                f"no record can match: {right.topic} from {span_text(self.lower)} until "
                f"{span_text(self.upper)} after {left.topic}",
                hint="the first bound must not be later than the second one",
            )
        types = [[side.fields[name] for name in side.keys] for side in (left, right)]
        if types[0] != types[1]:
            raise InputError(
                f"the keys of {left.topic} and {right.topic} differ: {_typed(left)}; "
                f"{_typed(right)}",
                hint="use the same number of fields with the same types on both sides",
            )
        if left.label == right.label:
            raise InputError(f"both sides have the name {left.label!r}", hint="change one `name`")

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        return self.left, self.right

    @property
    def preserved(self) -> tuple[str, ...]:
        """The topics whose records are written without a match, too."""
        kept = {
            "inner": (),
            "left_outer": (self.left,),
            "right_outer": (self.right,),
            "full_outer": self.sides,
        }[self.how]
        return tuple(side.topic for side in kept)

    @property
    def primary(self) -> JoinSide:
        """The side of which each record has one match with `first` and `nearest`."""
        return self.right if self.how == "right_outer" else self.left

    def side(self, topic: str) -> JoinSide | None:
        """The side that reads a topic."""
        return next((side for side in self.sides if side.topic == topic), None)

    def other(self, side: JoinSide) -> JoinSide:
        return self.right if side.topic == self.left.topic else self.left

    def bounds_of(self, side: JoinSide) -> tuple[timedelta, timedelta]:
        """When a match may be, relative to the time of a record of this side."""
        if side.topic == self.left.topic:
            return self.lower, self.upper
        return -self.upper, -self.lower

    def waits_until(self, side: JoinSide, time: datetime) -> datetime:
        """The watermark after which a record leaves the state of the join."""
        return time + self.bounds_of(side)[1]

    def written_until(self, side: JoinSide, time: datetime) -> datetime:
        """The watermark after which a record can have no more output.

        With `nearest` a second operator follows. Its watermark is the lowest time that the join may
        still output, and it collects the matches of a record of the primary side until then.
        """
        due = self.waits_until(side, time)
        if self.matches != "nearest":
            return due
        remaining = max(self.upper, -self.lower)
        if side.topic == self.primary.topic:
            return time + remaining
        return max(due, time) + remaining


def _typed(side: JoinSide) -> str:
    return ", ".join(f"{name} {side.fields[name]}" for name in side.keys)
