"""What a join promises: which ads match a visit, and until when a record waits for its match.

Spark keeps a record in its state until the watermark says that no match can come any more. The
watermark is the newest event time of a side, less a delay; of two sides, the lower one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from headwater.errors import InputError

Matches = Literal["all", "first", "nearest"]
MATCHES: tuple[str, ...] = get_args(Matches)

# The two sides, as they are counted; their topics may have other names.
VISITS = "visits"
ADS = "ads"

_UNITS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
_SPAN = re.compile(rf"(?P<count>-?\d{{1,9}}) (?P<unit>{'|'.join(_UNITS)})s?")
_NONE = timedelta()


@dataclass(frozen=True)
class JoinRule:
    """An ad matches a visit of its page if it was displayed within bounds after the visit's time.

    Bounds count from the visit's event time, both ends included; `ad_from` may be negative. A
    delay says how much older than the newest record of its side a record may be.
    """

    visits: str = "visits"
    ads: str = "ads"
    ad_from: timedelta = _NONE
    ad_until: timedelta = timedelta(minutes=2)
    visits_delay: timedelta = timedelta(minutes=10)
    ads_delay: timedelta = timedelta(minutes=10)
    matches: Matches = "all"

    def __post_init__(self) -> None:
        if self.visits == self.ads:
            raise InputError(f"visits and ads can't be the same topic: {self.visits!r}")
        if self.ad_from > self.ad_until:
            raise InputError(
                f"no ad can match: displayed from {span_text(self.ad_from)} until "
                f"{span_text(self.ad_until)} after the visit",
                hint="--ad-from must not be later than --ad-until",
            )
        for option, delay in (
            ("--visits-watermark", self.visits_delay),
            ("--ads-watermark", self.ads_delay),
        ):
            if delay < _NONE:
                raise InputError(f"{option} can't be negative: {span_text(delay)}")

    @property
    def bounds_text(self) -> str:
        """The bounds in words."""
        return f"{span_text(self.ad_from)} to {span_text(self.ad_until)} after its event_time"

    def visit_waits_until(self, event_time: datetime) -> datetime:
        """A visit leaves the state when the watermark is past this."""
        return event_time + self.ad_until

    def ad_waits_until(self, display_time: datetime) -> datetime:
        """An ad leaves the state when the watermark is past this."""
        return display_time - self.ad_from

    def as_json(self) -> dict[str, Any]:
        """For the note beside the checkpoint; spans in milliseconds."""
        return {
            "visits": self.visits,
            "ads": self.ads,
            "ad_from_ms": millis(self.ad_from),
            "ad_until_ms": millis(self.ad_until),
            "visits_delay_ms": millis(self.visits_delay),
            "ads_delay_ms": millis(self.ads_delay),
            "matches": self.matches,
        }

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> JoinRule:
        """The reverse of `as_json`; a KeyError or TypeError if it is something else."""
        return cls(
            visits=content["visits"],
            ads=content["ads"],
            ad_from=timedelta(milliseconds=content["ad_from_ms"]),
            ad_until=timedelta(milliseconds=content["ad_until_ms"]),
            visits_delay=timedelta(milliseconds=content["visits_delay_ms"]),
            ads_delay=timedelta(milliseconds=content["ads_delay_ms"]),
            matches=content["matches"],
        )


def parse_span(text: str, option: str) -> timedelta:
    """A span of time in words, such as `2 minutes`, `-30 seconds`.

    Raises:
        InputError: names the option and the text.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{option}: not a span of time: {text!r}",
            hint=f"a number and one of {', '.join(_UNITS)}, such as `2 minutes`",
        )
    return timedelta(seconds=int(match["count"]) * _UNITS[match["unit"]])


def span_text(span: timedelta) -> str:
    """In the largest unit that fits: `2 minutes`, `90 seconds`."""
    total = millis(span)
    if total == 0:
        return "0 seconds"
    for unit, seconds in reversed(_UNITS.items()):
        count, rest = divmod(total, round(seconds * 1000))
        if rest == 0:
            return f"{count} {unit}" + ("" if abs(count) == 1 else "s")
    return f"{total} milliseconds"


def millis(span: timedelta) -> int:
    """Spark's times are compared in whole milliseconds."""
    return round(span / timedelta(milliseconds=1))
