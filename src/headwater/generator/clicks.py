"""Clicks: one per minute, one visit after the other.

Event times have no time zone, as with many trackers. They never go back, so that only the blemish
`late` produces late clicks.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from random import Random

from headwater.generator.draws import between
from headwater.generator.kind import Generated, RecordKind
from headwater.generator.site import PAGES

FIELDS = ("event_id", "visit_id", "event_time", "page")

_START = datetime(2025, 9, 4, 7)  # noqa: DTZ001 - times of clicks have no zone
_FEWEST_CLICKS, _MAX_CLICKS = 3, 12
# An unbounded stream must not exceed the year 9999: time wraps around after a century (52 million
# clicks).
_SPAN_HOURS = 100 * 365 * 24
_MINUTES = tuple(f"{minute:02}:00.000000" for minute in range(60))


def records(random: Random) -> Iterator[Generated]:
    """Unbounded clicks."""
    draw, pages, choices = random.random, PAGES, len(PAGES)
    visit_id, remaining, key = 0, 0, b""
    for number, time in zip(count(1), _times(), strict=False):
        if not remaining:
            visit_id += 1
            remaining = between(random, _FEWEST_CLICKS, _MAX_CLICKS)
            key = b"%d" % visit_id
        remaining -= 1
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


CLICKS = RecordKind(
    name="clicks",
    topic="clicks",
    partitions=1,
    fields=FIELDS,
    time_field="event_time",
    time_precision="microseconds",
    records=records,
)
