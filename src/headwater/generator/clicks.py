"""Clicks: one a minute, one visit after the other.

Event times have no zone, as many trackers send them. Nothing jumps back, so that a late click is
one that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from random import Random

from headwater.generator.draws import between
from headwater.generator.kind import Generated, Kind
from headwater.generator.site import PAGES

FIELDS = ("event_id", "visit_id", "event_time", "page")

_START = datetime(2025, 9, 4, 7)  # noqa: DTZ001 - times of clicks name no zone
_FEWEST_CLICKS, _MAX_CLICKS = 3, 12
# The calendar ends with the year 9999, an endless stream does not: after a century of clicks
# (52 million of them) time begins anew.
_SPAN_HOURS = 100 * 365 * 24
_MINUTES = tuple(f"{minute:02}:00.000000" for minute in range(60))


def records(random: Random) -> Iterator[Generated]:
    """Clicks for ever."""
    draw, pages, choices = random.random, PAGES, len(PAGES)
    visit_id, left, key = 0, 0, b""
    for number, time in zip(count(1), _times(), strict=False):
        if not left:
            visit_id += 1
            left = between(random, _FEWEST_CLICKS, _MAX_CLICKS)
            key = b"%d" % visit_id
        left -= 1
        yield (
            key,
            f'{{"event_id": "click-{number}", "visit_id": {visit_id}, '
            f'"event_time": "{time}", "page": "{pages[int(draw() * choices)]}"}}'.encode(),
        )


def _times() -> Iterator[str]:
    while True:
        for hour in range(_SPAN_HOURS):
            hour_text = f"{_START + timedelta(hours=hour):%Y-%m-%dT%H:}"
            for minute_text in _MINUTES:
                yield hour_text + minute_text


CLICKS = Kind(
    name="clicks",
    topic="clicks",
    partitions=1,
    fields=FIELDS,
    time_field="event_time",
    time_precision="microseconds",
    records=records,
)
