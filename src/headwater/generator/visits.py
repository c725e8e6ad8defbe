"""Visits: ten concurrent ones, with one event of each per round.

An event is 1 to 5 full minutes after the previous event of its visit; the first one is after the
start time. When a visit ends, a new visit of a new user takes its slot and begins at the start time
again, so event time goes back even without blemishes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, cycle
from random import Random
from typing import NamedTuple

from headwater.generator.draws import between, pick, uuid4
from headwater.generator.kind import Generated, RecordKind
from headwater.generator.site import (
    FEWEST_EVENTS,
    LONGEST_STEP,
    LONGEST_VISIT_MINUTES,
    MAX_EVENTS,
    PAGES,
    SHORTEST_STEP,
    START,
    minute_texts,
)

VISITS_PER_ROUND = 10
"""Events of one round: one per open visit. A rate-limited stream pauses after each round."""

FIELDS = ("visit_id", "event_time", "user_id", "keep_private", "page", "context")

_REFERRALS = (
    None,
    "Google Search",
    "Google Ads",
    "Facebook",
    "Twitter",
    "LinkedIn",
    "YouTube",
    "StackOverflow",
    "Medium",
)
_ADS = (None, "ad 1", "ad 2", "ad 3", "ad 4", "ad 5")
_BROWSERS = ("Firefox", "Chrome", "Safari")
_BROWSER_VERSIONS = tuple("20.0 20.1 20.2 21.0 22.0 23.0 23.1 23.2 24.11 25.09".split())
_NETWORK_TYPES = ("5G", "4G", "Wi-Fi", "LAN")
_DEVICE_TYPES = ("PC", "MacBook", "iPhone", "iPad", "Smartphone")
_DEVICE_VERSIONS = ("1.0", "2.0", "3.0", "4.0", "5.0", "6.0")
_FIRST_NAMES = tuple(
    """
    adam brenda carlos diana emma felix grace hugo irene justin
    kelley laura marcus nina oscar paula roy sarah thomas vera
    """.split()
)
_LAST_NAMES = tuple(
    """
    allen baker clark davis evans fischer garcia hughes ito jones
    kim lopez miller novak olsen perez rossi sanchez turner wagner
    """.split()
)
# Without the blocks of private, loopback, link-local and documentation addresses.
_FIRST_OCTETS = tuple(n for n in range(1, 224) if n not in {10, 100, 127, 169, 172, 192, 198, 203})

# Each step with each page, so that one draw selects both.
_EVENTS = tuple(
    (step, page.encode()) for step in range(SHORTEST_STEP, LONGEST_STEP + 1) for page in PAGES
)

# Placeholders in the text of a visit for the parts of an event; no drawn text contains a tilde.
_TIME_HERE, _PAGE_HERE = "~time~", "~page~"


class _Visit(NamedTuple):
    """A visit, encoded once: the parts before and after event time and page."""

    key: bytes
    before_time: bytes
    before_page: bytes
    after_page: bytes
    events: int


def records(random: Random) -> Iterator[Generated]:
    """Unbounded visits."""
    generator_id = between(random, 10**14, 10**15 - 1)
    numbers = count()
    times = minute_texts(START, LONGEST_VISIT_MINUTES + 1, "00+00:00")
    slots = [_slot(random, generator_id, numbers, times) for _ in range(VISITS_PER_ROUND)]
    return map(next, cycle(slots))


def _slot(
    random: Random, generator_id: int, numbers: Iterator[int], times: tuple[bytes, ...]
) -> Iterator[Generated]:
    draw, events, choices = random.random, _EVENTS, len(_EVENTS)
    while True:
        key, before_time, before_page, after_page, length = _open_visit(
            random, f"{generator_id}_{next(numbers)}", f"{generator_id}_{uuid4(random)}"
        )
        minute = 0
        for _ in range(length):
            step, page = events[int(draw() * choices)]
            minute += step
            yield key, b"".join((before_time, times[minute], before_page, page, after_page))


def _open_visit(random: Random, visit_id: str, user_id: str) -> _Visit:
    text = json.dumps(
        {
            "visit_id": visit_id,
            "event_time": _TIME_HERE,
            "user_id": user_id,
            "keep_private": between(random, 1, 7) == 1,
            "page": _PAGE_HERE,
            "context": _context(random),
        }
    )
    before_time, _, rest = text.partition(_TIME_HERE)
    before_page, _, after_page = rest.partition(_PAGE_HERE)
    return _Visit(
        visit_id.encode(),
        before_time.encode(),
        before_page.encode(),
        after_page.encode(),
        between(random, FEWEST_EVENTS, MAX_EVENTS),
    )


def _context(random: Random) -> dict[str, object]:
    return {
        "referral": pick(random, _REFERRALS),
        "ad_id": pick(random, _ADS),
        "user": {
            "ip": _ip(random),
            "login": _login(random),
            "connected_since": _connected_since(random),
        },
        "technical": {
            "browser": pick(random, _BROWSERS),
            "browser_version": pick(random, _BROWSER_VERSIONS),
            "network_type": pick(random, _NETWORK_TYPES),
            "device_type": pick(random, _DEVICE_TYPES),
            "device_version": pick(random, _DEVICE_VERSIONS),
        },
    }


def _ip(random: Random) -> str:
    last = ".".join(str(between(random, 1, 254)) for _ in range(3))
    return f"{pick(random, _FIRST_OCTETS)}.{last}"


def _login(random: Random) -> str:
    first, last = pick(random, _FIRST_NAMES), pick(random, _LAST_NAMES)
    return pick(
        random, (first + last, last + first, first[0] + last, f"{first}{between(random, 10, 99)}")
    )


def _connected_since(random: Random) -> str | None:
    if between(random, 1, 3) != 1:
        return None
    return (START - timedelta(days=between(random, 1, 30))).isoformat()


VISITS = RecordKind(
    name="visits",
    topic="visits",
    partitions=2,
    fields=FIELDS,
    time_field="event_time",
    time_precision="seconds",
    records=records,
)
