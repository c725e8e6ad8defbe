"""The web site of visits, ads and clicks: its pages and its time range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

PAGES = (
    "index",
    "contact",
    "home",
    "main",
    "about",
    "categories",
    *(f"category_{number}" for number in range(1, 21)),
    *(f"page_{number}" for number in range(1, 21)),
)

START = datetime(2024, 1, 1, tzinfo=UTC)

# A visit starts at the start time and has 5 to 500 events, 1 to 5 minutes apart, so it takes at
# most LONGEST_VISIT_MINUTES. Ads use the same time range.
FEWEST_EVENTS, MAX_EVENTS = 5, 500
SHORTEST_STEP, LONGEST_STEP = 1, 5
LONGEST_VISIT_MINUTES = MAX_EVENTS * LONGEST_STEP


@cache
def minute_texts(start: datetime, minutes: int, ending: str) -> tuple[bytes, ...]:
    """The text of each minute from `start` on, such as `2024-01-01T08:18:`, followed by `ending`.

    A lookup takes a tenth of the time of formatting.
    """
    return tuple(
        f"{start + timedelta(minutes=minute):%Y-%m-%dT%H:%M:}{ending}".encode()
        for minute in range(minutes)
    )
