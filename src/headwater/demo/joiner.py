"""Enrichment: joins visits with ads in any order of arrival, and reports unmatched records.

A join keeps state, so each run of the demo has its own topics and checkpoint. They are not deleted
and can be inspected.
"""

from __future__ import annotations

import json
from itertools import count

from headwater.demo.stack import start_broker
from headwater.demo.story import Story
from headwater.jobs import visits_ads_enrichment_job
from headwater.join.fates import why_missing
from headwater.kafka import RecordProducer, ensure_topic, list_topics, read_topic
from headwater.model import Address, Record
from headwater.model.header import origin_of
from headwater.model.topic_names import DEAD_LETTER_SUFFIX, LATE_SUFFIX
from headwater.tracing import Fate

_DAY = "2024-01-01T"
_PARTITIONS = 2


class _JoinRun:
    """The topics of one run of the demo, and the job between them."""

    def __init__(self, story: Story) -> None:
        self._story = story
        known = {topic.name for topic in list_topics(story.settings.kafka)}
        checkpoints = story.settings.home_dir / "checkpoints"
        names = (f"joiner-{number}" for number in count(1))
        # Neither the broker nor the home may have topics or checkpoints of an earlier run.
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
        value = {"visit_id": visit_id, "event_time": _input_time(time), "page": page}
        self._send(self.visits, json.dumps(value), visit_id)

    def ad(self, page: str, time: str, campaign: str) -> None:
        value = {"page": page, "display_time": _input_time(time), "campaign_name": campaign}
        self._send(self.ads, json.dumps(value), page)

    def malformed_visit(self) -> None:
        self._send(self.visits, "{........", "visit-7")

    def _send(self, topic: str, value: str, key: str) -> None:
        self._story.show(f"{topic.rpartition('.')[2]:<6} <- {value}", dim=True)
        with RecordProducer(self._story.settings.kafka) as producer:
            producer.send(topic, value.encode(), key.encode())

    def run(self) -> list[str]:
        """Run the job on the new records; shows the new output rows and returns them, sorted."""
        options = ["--visits-topic", self.visits, "--ads-topic", self.ads]
        options += ["--output-topic", self.output, "--checkpoint", str(self.checkpoint)]
        with self._story.step("Run `visits_ads_enrichment_job` on the new records") as step:
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
        answer = why_missing(record, self.output, self._story.settings, checkpoint=self.checkpoint)
        return answer.fate, answer.verdict.sentence


def run(story: Story) -> None:
    """Run the demo on the local broker or the configured one."""
    story.title("Joiner: visits with the ads of their page, shown within two minutes")
    start_broker(story)
    join = _JoinRun(story)
    _first_match(story, join)
    _unmatched(story, join)
    _ad_before_its_visit(story, join)
    _watermark_moves(story, join)
    _beyond_the_join(story, join)


def _first_match(story: Story, join: _JoinRun) -> None:
    join.visit("visit-1", "08:18:00", "home")
    join.visit("visit-2", "08:20:00", "home")
    join.ad("home", "08:18:15", "supermarket")
    matched = _row("visit-1", "08:18:00", "home", "home", "08:18:15", "supermarket")
    _expect(story, join, "the ad is joined with the visit that it was displayed after", [matched])


def _unmatched(story: Story, join: _JoinRun) -> None:
    join.visit("visit-3", "08:58:00", "category1")
    join.visit("visit-4", "09:00:00", "category2")
    _expect(story, join, "later visits alone do not move the watermark", [])
    join.ad("category3", "09:00:15", "supermarket")
    _expect(
        story,
        join,
        "a later ad does: visit-2 can have no ad any more and is written without one",
        [_row("visit-2", "08:20:00", "home")],
    )


def _ad_before_its_visit(story: Story, join: _JoinRun) -> None:
    join.ad("category4", "09:10:30", "internet provider")
    _expect(story, join, "an ad without a visit is buffered", [])
    join.visit("visit-5", "08:58:00", "category4")
    _expect(story, join, "a visit twelve minutes before it does not match", [])
    join.visit("visit-6", "09:09:00", "category4")
    row = _row("visit-6", "09:09:00", "category4", "category4", "09:10:30", "internet provider")
    _expect(story, join, "a visit within two minutes matches, though it arrived later", [row])


def _watermark_moves(story: Story, join: _JoinRun) -> None:
    join.visit("visit-100", "10:09:00", "category6")
    unmatched = [
        _row("visit-3", "08:58:00", "category1"),
        _row("visit-5", "08:58:00", "category4"),
    ]
    _expect(story, join, "visits 3 and 5 are written without ads, visit-4 still waits", unmatched)


def _beyond_the_join(story: Story, join: _JoinRun) -> None:
    """Records that Spark's join drops without a message."""
    join.visit("visit-8", "08:30:00", "home")
    join.malformed_visit()
    _expect(story, join, "a late visit and a malformed one are not joined", [])
    messages = {}
    for suffix in (LATE_SUFFIX, DEAD_LETTER_SUFFIX):
        for record in join.rows(suffix):
            headers = {name: (value or b"").decode() for name, value in record.headers}
            messages[suffix] = headers["__connect.errors.exception.message"]
            story.show(f"visits-enriched{suffix} -> {messages[suffix]}")
    late = "late by 1830.000 s: event_time 2024-01-01T08:30:00.000Z, watermark 2024-01-01T09:00:30"
    story.check(
        "the late visit is in the late topic with the reason",
        messages.get(LATE_SUFFIX, "").startswith(late),
    )
    story.check(
        "the malformed visit is in the dead letter topic",
        "JSON" in messages.get(DEAD_LETTER_SUFFIX, ""),
    )
    waiting = _address_of(join, "visit-4", story)
    fate, sentence = join.fate_of(waiting)
    story.show(sentence)
    story.check(
        "`headwater why-missing` shows that visit-4 waits, and until when",
        fate is Fate.WAITING and "past 2024-01-01T09:02:00.000Z" in sentence,
        fate.value,
    )
    parents = {record.key: origin_of(record).lineage for record in join.rows()}
    both = parents.get(b"visit-6")
    story.check(
        "each row has the key of its visit and names both parents",
        both is not None and [parent.topic for parent in both.parents] == [join.visits, join.ads],
    )


def _address_of(join: _JoinRun, visit_id: str, story: Story) -> Address:
    visits = read_topic(join.visits, story.settings.kafka)
    return next(record.address for record in visits if record.key == visit_id.encode())


def _expect(story: Story, join: _JoinRun, claim: str, rows: list[str]) -> None:
    actual = join.run()
    story.check(claim, actual == sorted(rows), f"{len(actual)} rows, not {len(rows)}")


def _row(visit_id: str, time: str, page: str, *ad: str) -> str:
    """The exact value of an output row."""
    names = ("visit_id", "event_time", "visit_page", "page", "display_time", "campaign_name")
    values = [visit_id, _output_time(time), page, *ad]
    if ad:
        values[4] = _output_time(ad[1])
    return json.dumps(dict(zip(names, values, strict=False)), separators=(",", ":"))


def _input_time(time: str) -> str:
    return f"{_DAY}{time}.000+00:00"


def _output_time(time: str) -> str:
    return f"{_DAY}{time}.000Z"
