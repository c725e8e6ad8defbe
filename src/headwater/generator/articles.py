"""News articles with text from a small word list."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from random import Random

from headwater.generator.draws import between, pick
from headwater.generator.kind import Generated, RecordKind
from headwater.generator.site import START

FIELDS = ("id", "published_at", "title", "body", "source", "url")

_WORDS = tuple(
    """
    harbour council river market school bridge library winter signal museum railway garden
    engine budget forest teacher island report opens delays repairs plans measures votes
    returns studies closes quiet northern early public local modern narrow bright ancient
    after before near within without beyond under during across
    """.split()
)
_SOURCES = (
    ("Harbour Post", "harbour-post.example"),
    ("Morning Ledger", "morning-ledger.example"),
    ("The Northern Times", "northern-times.example"),
    ("City Wire", "city-wire.example"),
    ("Science Weekly", "science-weekly.example"),
)
# Texts are drawn from a pool, which is several times faster than word by word. A sentence has 51 to
# 94 bytes (the last word, of at most 8 letters, may exceed the drawn length), so four of them and
# the spaces between them are a body of 207 to 379 bytes.
_POOL = 256
_SHORTEST_SENTENCE, _LONGEST_SENTENCE = 50, 85
_WORDS_PER_TITLE = 5
_LONGEST_STEP_MINUTES = 10
_MINUTES_PER_DAY = 24 * 60
_TIMES_OF_DAY = tuple(
    f"{hour:02}:{minute:02}:00+00:00" for hour in range(24) for minute in range(60)
)
# An unbounded stream must not exceed the year 9999: time wraps around after a century.
_SPAN_MINUTES = 100 * 365 * _MINUTES_PER_DAY


def records(random: Random) -> Iterator[Generated]:
    """Unbounded articles, published 1 to 10 minutes apart."""
    titles = [_title(random) for _ in range(_POOL)]
    sentences = [_sentence(random) for _ in range(_POOL)]
    draw = random.random
    elapsed, today, date = 0, -1, ""
    for number in count(1):
        elapsed = (elapsed + 1 + int(draw() * _LONGEST_STEP_MINUTES)) % _SPAN_MINUTES
        day, minute = divmod(elapsed, _MINUTES_PER_DAY)
        if day != today:
            today, date = day, f"{START + timedelta(days=day):%Y-%m-%d}"
        title = titles[int(draw() * _POOL)]
        body = " ".join([sentences[int(draw() * _POOL)] for _ in range(4)])
        source, host = _SOURCES[int(draw() * len(_SOURCES))]
        yield (
            b"article-%d" % number,
            f'{{"id": "article-{number}", "published_at": "{date}T{_TIMES_OF_DAY[minute]}", '
            f'"title": "{title}", "body": "{body}", "source": "{source}", '
            f'"url": "https://{host}/articles/{number}"}}'.encode(),
        )


def _title(random: Random) -> str:
    return " ".join(pick(random, _WORDS) for _ in range(_WORDS_PER_TITLE)).capitalize()


def _sentence(random: Random) -> str:
    length = between(random, _SHORTEST_SENTENCE, _LONGEST_SENTENCE)
    text = pick(random, _WORDS)
    while len(text) < length:
        text += " " + pick(random, _WORDS)
    return text.capitalize() + "."


ARTICLES = RecordKind(
    name="articles",
    topic="articles.raw.v1",
    partitions=2,
    fields=FIELDS,
    time_field="published_at",
    time_precision="seconds",
    records=records,
)
