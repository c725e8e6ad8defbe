"""Ad displays on the pages of visits, in the time range of visits.

Displays are 1 to 35 seconds apart: 18 on average, which is the rate of visits (ten events per
three minutes). So equal numbers of ads and visits cover the same time, and about one visit in
seven has an ad on its page within the next two minutes; more of them after ads have wrapped around.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from headwater.generator.kind import Generated, RecordKind
from headwater.generator.site import LONGEST_VISIT_MINUTES, PAGES, START, minute_texts

FIELDS = ("page", "display_time", "campaign_name")

_CAMPAIGNS = (
    "supermarket",
    "internet provider",
    "travel agency",
    "book shop",
    "car rental",
    "insurance",
    "streaming service",
    "garden centre",
)
_LONGEST_STEP_SECONDS = 35
_SPAN_SECONDS = LONGEST_VISIT_MINUTES * 60
_SECONDS = tuple(f"{second:02}.000+00:00".encode() for second in range(60))

# Each page with each campaign, so that one draw selects both.
_DISPLAYS = tuple(
    (page.encode(), f'{{"page": "{page}", "display_time": "'.encode(), campaign.encode())
    for page in PAGES
    for campaign in _CAMPAIGNS
)


def records(random: Random) -> Iterator[Generated]:
    """Unbounded ads. After the longest visit their time wraps around, as that of visits does."""
    draw, displays, choices = random.random, _DISPLAYS, len(_DISPLAYS)
    minutes = minute_texts(START, LONGEST_VISIT_MINUTES, "")
    elapsed = 0
    while True:
        elapsed = (elapsed + 1 + int(draw() * _LONGEST_STEP_SECONDS)) % _SPAN_SECONDS
        minute, second = divmod(elapsed, 60)
        page, before_time, campaign = displays[int(draw() * choices)]
        yield (
            page,
            b'%b%b%b", "campaign_name": "%b"}'
            % (before_time, minutes[minute], _SECONDS[second], campaign),
        )


ADS = RecordKind(
    name="ads",
    topic="ads",
    partitions=2,
    fields=FIELDS,
    time_field="display_time",
    time_precision="milliseconds",
    records=records,
)
