"""The rule of a join: which ads match a visit, and until when a record waits for its match.

Spark keeps a record in its state until the watermark shows that no match can come. The watermark
is the newest event time of a side minus a delay; the lower one of both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from headwater.errors import CheckpointError, InputError

Matches = Literal["all", "first", "nearest"]
MATCHES: tuple[str, ...] = get_args(Matches)

# Names of the two sides in metrics; their topics may have other names.
VISITS = "visits"
ADS = "ads"

_UNITS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
_SPAN = re.compile(rf"(?P<count>-?\d{{1,9}}) (?P<unit>{'|'.join(_UNITS)})s?")
_NONE = timedelta()

RULE_FILE = Path("headwater") / "join.json"
_EXAMPLE = datetime(2024, 1, 1, 9, 0, tzinfo=UTC)
_SEVERAL = {
    "all": "A visit with several ads gives several rows, each as soon as both records are read.",
    "first": "A visit with several ads gives one row with the first ad that is found; the others "
    "are dropped.",
    "nearest": "A visit with several ads gives one row with the nearest ad in time, when no more "
    "can match.",
}


@dataclass(frozen=True)
class JoinRule:
    """An ad matches a visit of its page if it was displayed within bounds after the visit.

    Bounds are relative to the visit's event time, both included; `ad_from` may be negative. A
    delay is how much older than the newest record of its side a record may be.
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
        """The bounds as text."""
        return f"{span_text(self.ad_from)} to {span_text(self.ad_until)} after its event_time"

    def visit_waits_until(self, event_time: datetime) -> datetime:
        """The watermark after which a visit leaves the state."""
        return event_time + self.ad_until

    def ad_waits_until(self, display_time: datetime) -> datetime:
        """The watermark after which an ad leaves the state."""
        return display_time - self.ad_from

    def as_json(self) -> dict[str, Any]:
        """The content of the file next to the checkpoint; durations in milliseconds."""
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
        """The inverse of `as_json`; raises KeyError or TypeError for other content."""
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
    """Parse a duration such as `2 minutes` or `-30 seconds`.

    Raises:
        InputError: names the option and the text.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{option}: not a duration: {text!r}",
            hint=f"use a number and one of {', '.join(_UNITS)}, such as `2 minutes`",
        )
    return timedelta(seconds=int(match["count"]) * _UNITS[match["unit"]])


def span_text(span: timedelta) -> str:
    """A duration in the largest unit without a remainder: `2 minutes`, `90 seconds`."""
    total = millis(span)
    if total == 0:
        return "0 seconds"
    for unit, seconds in reversed(_UNITS.items()):
        count, rest = divmod(total, round(seconds * 1000))
        if rest == 0:
            return f"{count} {unit}" + ("" if abs(count) == 1 else "s")
    return f"{total} milliseconds"


def millis(span: timedelta) -> int:
    """In milliseconds, the resolution of Spark's watermarks."""
    return round(span / timedelta(milliseconds=1))


def read_rule(checkpoint: Path) -> JoinRule | None:
    """The rule of the join that this checkpoint belongs to; None if there is none."""
    try:
        return JoinRule.of_json(json.loads((checkpoint / RULE_FILE).read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_rule(checkpoint: Path, rule: JoinRule) -> None:
    """Store the rule next to the checkpoint, before the query starts.

    Bounds and delays may change between starts; topics and `matches` determine the state.

    Raises:
        CheckpointError: the checkpoint belongs to a join with other topics or `matches`.
    """
    stored = read_rule(checkpoint)
    if stored is not None:
        for what, old, new in (
            ("visits from", stored.visits, rule.visits),
            ("ads from", stored.ads, rule.ads),
            ("matches:", stored.matches, rule.matches),
        ):
            if old != new:
                raise CheckpointError(
                    f"{checkpoint} belongs to a join with {what} {old}, not {new}",
                    hint="choose another --checkpoint",
                    checkpoint=str(checkpoint),
                )
    file = checkpoint / RULE_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(json.dumps(rule.as_json()))
    unfinished.replace(file)


def explain(rule: JoinRule, output: str, *, idle_timeout: timedelta | None = None) -> str:
    """Describe until when records wait, and when unmatched visits are written."""
    visit, due = _EXAMPLE, rule.visit_waits_until(_EXAMPLE)
    first, last = visit + rule.ad_from, visit + rule.ad_until
    paragraphs = [
        [f"{rule.visits} left outer join {rule.ads} -> {output}"],
        [
            f"An ad matches a visit of its page if it is displayed {span_text(rule.ad_from)} to "
            f"{span_text(rule.ad_until)} after the visit's event_time, both ends included.",
            _SEVERAL[rule.matches],
            f"  A visit of {_time(visit)} takes ads of {_time(first)} to {_time(last)}.",
        ],
        [
            "The watermark is the earlier of two times, and never decreases: the newest event_time "
            f"in {rule.visits} minus {span_text(rule.visits_delay)}, and the newest display_time "
            f"in {rule.ads} minus {span_text(rule.ads_delay)}.",
            f"  A visit of {_time(visit)} waits for an ad until the watermark is past {_time(due)};"
            f" that is, until a visit later than {_time(due + rule.visits_delay)} and an ad later "
            f"than {_time(due + rule.ads_delay)} were read.",
            "  Without a match by then, it is written alone, in the next micro-batch.",
            f"  An ad of {_time(visit)} waits for a visit until the watermark is past "
            f"{_time(rule.ad_waits_until(visit))}; without a match it is dropped.",
        ],
        [
            "A record is late if the watermark of the previous micro-batch had reached its time. "
            f"It goes to {output}-late, with the reason.",
            f"A visit less than {span_text(rule.visits_delay)} older than the newest visit is "
            f"never late, nor is an ad less than {span_text(rule.ads_delay)} older than the newest "
            "ad.",
        ],
        _idle(rule, idle_timeout),
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _idle(rule: JoinRule, timeout: timedelta | None) -> list[str]:
    if timeout is None:
        return [
            "While a topic is idle, the watermark does not advance, and no unmatched visit is "
            "written. --idle-timeout changes that."
        ]
    return [
        f"When a topic has been idle for {span_text(timeout)}, it no longer holds back the "
        "watermark, which then follows the other topic alone.",
        f"A visit that arrives then is late if it is more than {span_text(rule.visits_delay)} "
        f"older than the newest ad, and an ad if it is more than {span_text(rule.ads_delay)} older "
        "than the newest visit. Matches are not affected.",
    ]


def _time(moment: datetime) -> str:
    """With the number of days only if the day differs."""
    text = f"{moment:%H:%M:%S}"
    if moment.microsecond:
        text += f".{moment.microsecond // 1000:03}"
    days = (moment.date() - _EXAMPLE.date()).days
    return text if days == 0 else f"{text} ({days:+} d)"
