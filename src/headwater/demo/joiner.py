"""Enrichment: visits are joined with ads, whichever comes first, and none is lost without a word.

A join remembers what it has seen. So each telling has topics and a checkpoint of its own, which
stay for whoever wants to look at them.
"""

from __future__ import annotations

import json
from itertools import count

from headwater.demo.stack import start_broker
from headwater.demo.story import Story
from headwater.jobs import visits_ads_enrichment_job
from headwater.jobs.visits_ads.waiting import JoinExplainer
from headwater.kafka import RecordProducer, ensure_topic, list_topics, read_topic
from headwater.model import Address, Record
from headwater.model.headers import origin_of
from headwater.tracing import Fate, why_missing

_DAY = "2024-01-01T"
_PARTITIONS = 2


class _Telling:
    """The topics of one telling, and the job between them."""

    def __init__(self, story: Story) -> None:
        self._story = story
        known = {topic.name for topic in list_topics(story.settings.kafka)}
        checkpoints = story.settings.home_dir / "checkpoints"
        names = (f"joiner-{number}" for number in count(1))
        # Neither of the broker nor of the home anything must be left of that name.
        prefix = next(
            name
            for name in names
            if f"{name}.visits" not in known and not (checkpoints / name).exists()
        )
        self.visits, self.ads = f"{prefix}.visits", f"{prefix}.ads"
        self.output = f"{prefix}.visits-enriched"
        self.checkpoint = checkpoints / prefix
        for topic in (self.visits, self.ads, self.output):
            ensure_topic(topic, _PARTITIONS, story.settings.kafka)
        self._seen: set[Address] = set()

    def visit(self, visit_id: str, time: str, page: str) -> None:
        """A visit, keyed by its id."""
        value = {"visit_id": visit_id, "event_time": _instant(time), "page": page}
        self._send(self.visits, json.dumps(value), visit_id)

    def ad(self, page: str, time: str, campaign: str) -> None:
        value = {"page": page, "display_time": _instant(time), "campaign_name": campaign}
        self._send(self.ads, json.dumps(value), page)

    def broken_visit(self) -> None:
        self._send(self.visits, "{........", "visit-7")

    def _send(self, topic: str, value: str, key: str) -> None:
        self._story.show(f"{topic.rpartition('.')[2]:<6} <- {value}", dim=True)
        with RecordProducer(self._story.settings.kafka) as producer:
            producer.send(topic, value.encode(), key.encode())

    def run(self) -> list[str]:
        """Let the job catch up; returns the rows that came out, sorted, and shows them."""
        options = ["--visits-topic", self.visits, "--ads-topic", self.ads]
        options += ["--output-topic", self.output, "--checkpoint", str(self.checkpoint)]
        with self._story.step("Let `visits_ads_enrichment_job` catch up") as step:
            visits_ads_enrichment_job.main.main(
                [*options, "--available-now", "--quiet"],
                standalone_mode=False,
                obj=self._story.settings,
            )
            new = [each for each in self.rows() if each.address not in self._seen]
            self._seen |= {each.address for each in new}
            step.result = f"{len(new)} new rows"
        values = sorted((each.value or b"").decode() for each in new)
        for value in values:
            self._story.show(f"visits-enriched -> {value}")
        return values

    def rows(self, suffix: str = "") -> list[Record]:
        return list(read_topic(self.output + suffix, self._story.settings.kafka))

    def fate_of(self, record: Address) -> tuple[Fate, str]:
        found = why_missing(
            record,
            self.output,
            self._story.settings,
            checkpoint=self.checkpoint,
            explainers=[JoinExplainer(self._story.settings)],
        )
        return found.fate, found.verdict.sentence


def tell(story: Story) -> None:
    """The scenario, on the local broker or the user's own."""
    story.title("Joiner: visits with the ads of their page, shown within two minutes")
    start_broker(story)
    telling = _Telling(story)
    _first_match(story, telling)
    _unmatched(story, telling)
    _ad_before_its_visit(story, telling)
    _watermark_moves(story, telling)
    _beyond_the_join(story, telling)


def _first_match(story: Story, telling: _Telling) -> None:
    telling.visit("visit-1", "08:18:00", "home")
    telling.visit("visit-2", "08:20:00", "home")
    telling.ad("home", "08:18:15", "supermarket")
    matched = _row("visit-1", "08:18:00", "home", "home", "08:18:15", "supermarket")
    _expect(story, telling, "the ad is joined to the one visit that it came after", [matched])


def _unmatched(story: Story, telling: _Telling) -> None:
    telling.visit("visit-3", "08:58:00", "category1")
    telling.visit("visit-4", "09:00:00", "category2")
    _expect(story, telling, "later visits alone do not move the watermark", [])
    telling.ad("category3", "09:00:15", "supermarket")
    _expect(
        story,
        telling,
        "a later ad does: visit-2 can have no ad any more and comes out alone",
        [_row("visit-2", "08:20:00", "home")],
    )


def _ad_before_its_visit(story: Story, telling: _Telling) -> None:
    telling.ad("category4", "09:10:30", "internet provider")
    _expect(story, telling, "an ad without a visit waits", [])
    telling.visit("visit-5", "08:58:00", "category4")
    _expect(story, telling, "a visit twelve minutes before it is not its visit", [])
    telling.visit("visit-6", "09:09:00", "category4")
    row = _row("visit-6", "09:09:00", "category4", "category4", "09:10:30", "internet provider")
    _expect(story, telling, "one within two minutes is, though it came later", [row])


def _watermark_moves(story: Story, telling: _Telling) -> None:
    telling.visit("visit-100", "10:09:00", "category6")
    alone = [
        _row("visit-3", "08:58:00", "category1"),
        _row("visit-5", "08:58:00", "category4"),
    ]
    _expect(story, telling, "visits 3 and 5 come out alone, visit-4 still waits", alone)


def _beyond_the_join(story: Story, telling: _Telling) -> None:
    """What Spark's join is silent about."""
    telling.visit("visit-8", "08:30:00", "home")
    telling.broken_visit()
    _expect(story, telling, "a late visit and a broken one are not joined", [])
    names = {}
    for suffix in ("-late", "-dead-letter"):
        for record in telling.rows(suffix):
            headers = {name: (value or b"").decode() for name, value in record.headers}
            names[suffix] = headers["__connect.errors.exception.message"]
            story.show(f"visits-enriched{suffix} -> {names[suffix]}")
    late = "late by 1830.000 s: event_time 2024-01-01T08:30:00.000Z, watermark 2024-01-01T09:00:30"
    story.check(
        "the late one is set aside with the reason", names.get("-late", "").startswith(late)
    )
    story.check("the broken one is in the dead letter", "JSON" in names.get("-dead-letter", ""))
    waiting = _address_of(telling, "visit-4", story)
    fate, sentence = telling.fate_of(waiting)
    story.show(sentence)
    story.check(
        "`headwater why-missing` knows that visit-4 waits, and until when",
        fate is Fate.WAITING and "past 2024-01-01T09:02:00.000Z" in sentence,
        fate.value,
    )
    parents = {record.key: origin_of(record).lineage for record in telling.rows()}
    both = parents.get(b"visit-6")
    story.check(
        "each row is keyed by its visit and names both parents",
        both is not None
        and [parent.topic for parent in both.parents] == [telling.visits, telling.ads],
    )


def _address_of(telling: _Telling, visit_id: str, story: Story) -> Address:
    visits = read_topic(telling.visits, story.settings.kafka)
    return next(record.address for record in visits if record.key == visit_id.encode())


def _expect(story: Story, telling: _Telling, claim: str, rows: list[str]) -> None:
    found = telling.run()
    story.check(claim, found == sorted(rows), f"{len(found)} rows, not {len(rows)}")


def _row(visit_id: str, time: str, page: str, *ad: str) -> str:
    """A row of the output, byte for byte."""
    names = ("visit_id", "event_time", "visit_page", "page", "display_time", "campaign_name")
    values = [visit_id, _written(time), page, *ad]
    if ad:
        values[4] = _written(ad[1])
    return json.dumps(dict(zip(names, values, strict=False)), separators=(",", ":"))


def _instant(time: str) -> str:
    return f"{_DAY}{time}.000+00:00"


def _written(time: str) -> str:
    return f"{_DAY}{time}.000Z"
