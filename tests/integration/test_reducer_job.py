"""The reducer on a real broker: the four fields, the parents, and dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.delivery.dead_letter import RedriveOutcome, redrive
from headwater.jobs import visits_decorator_job, visits_reducer_job
from headwater.kafka import RecordProducer, read_topic
from headwater.model import Address, Record
from headwater.model.dead_letter import read_letter
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate, verify, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

GOOD = {
    "visit_id": "1_9",
    "event_time": "2024-01-01T00:48:00+00:00",
    "user_id": "1_2d28",
    "keep_private": False,
    "page": "category_2",
}


def run(
    job: object, settings: Settings, source: str, target: str, checkpoint: Path, *more: str
) -> None:
    options = ["--input-topic", source, "--output-topic", target, "--checkpoint", str(checkpoint)]
    job.main.main(  # type: ignore[attr-defined]
        [*options, "--available-now", "--quiet", *more], standalone_mode=False, obj=settings
    )


def send(settings: Settings, topic: str, *values: bytes | None) -> None:
    with RecordProducer(settings.kafka) as producer:
        for value in values:
            producer.send(topic, value, b"key", partition=0)


def text_headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def test_a_reduced_visit_has_four_fields_in_order_and_its_parent(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    visits, decorated, reduced = (make_topic(name, partitions=1) for name in ("a", "b", "c"))
    send(broker, visits, json.dumps(GOOD).encode())
    run(visits_decorator_job, broker, visits, decorated, tmp_path / "a", "--job-version", "v2")
    run(visits_reducer_job, broker, decorated, reduced, tmp_path / "b")
    (record,) = read_topic(reduced, broker.kafka)
    assert record.value == (
        b'{"visit_id":"1_9","event_time":"2024-01-01T00:48:00.000Z",'
        b'"user_id":"1_2d28","page":"category_2"}'
    )
    assert record.key == b"key"
    headers = text_headers(record)
    names = ["job_name", "job_version", "batch_version", "parent_lineage", "lineage"]
    assert list(headers) == names
    assert headers["parent_lineage"] == (
        '["{job_version, v2}","{job_name, visits_decorator}","{batch_version, 0}"]'
    )
    assert headers["lineage"].endswith(f" {decorated}/0@0")


@pytest.mark.parametrize("name", ['a "quoted", name}', "back\\slash", "naïve 名前", "{a, b}"])
def test_special_characters_in_the_name_of_the_parent_job_are_kept(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path, name: str
) -> None:
    visits, decorated, reduced = make_topic("visits"), make_topic("decorated"), make_topic("red")
    send(broker, visits, json.dumps(GOOD).encode())
    run(visits_decorator_job, broker, visits, decorated, tmp_path / "a", "--job-name", name)
    run(visits_reducer_job, broker, decorated, reduced, tmp_path / "b")
    (parent,), (record,) = read_topic(decorated, broker.kafka), read_topic(reduced, broker.kafka)
    assert origin_of(parent).job_name == name
    stamp = json.loads(text_headers(record)["parent_lineage"])
    assert stamp[1] == f"{{job_name, {name}}}"


@pytest.mark.lines
def test_invalid_records_go_to_the_dead_letter_topic_and_valid_ones_to_the_output(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    bad: list[tuple[bytes, str, str]] = [
        (b"{........", "headwater.MalformedJson", "not a JSON object"),
        (b"", "headwater.MalformedJson", "not a JSON object"),
        (b"[1, 2]", "headwater.MalformedJson", "not a JSON object"),
        (b'"text"', "headwater.MalformedJson", "not a JSON object"),
        (b'{"visit_id": "\xff"}', "headwater.MalformedJson", "not a JSON object"),
        (
            _with(event_time="soon"),
            "headwater.BadTimestamp",
            "'event_time' is not a timestamp: soon",
        ),
        (_with(page=None), "headwater.MissingField", "'page' is missing"),
        (b"{}", "headwater.MissingField", "is missing"),
    ]
    send(broker, source, *(value for value, _, _ in bad), json.dumps(GOOD).encode(), None)
    run(visits_reducer_job, broker, source, target, tmp_path / "checkpoint")
    good, tombstone = read_topic(target, broker.kafka)
    assert json.loads(good.value or b"")["visit_id"] == "1_9"
    assert (tombstone.key, tombstone.value) == (b"key", None)
    dead = list(read_topic(f"{target}-dead-letter", broker.kafka))
    assert [record.value for record in dead] == [value for value, _, _ in bad]
    for offset, (record, (_, kind, message)) in enumerate(zip(dead, bad, strict=True)):
        headers = text_headers(record)
        assert headers["__connect.errors.exception.class.name"] == kind
        assert message in headers["__connect.errors.exception.message"]
        assert headers["__connect.errors.topic"] == source
        assert headers["__connect.errors.offset"] == str(offset)
        assert headers["lineage"].endswith(f" {source}/0@{offset}")


def test_a_redriven_record_that_fails_again_is_a_dead_letter_with_its_count(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    send(broker, source, b"poison", json.dumps(GOOD).encode())
    for round_ in range(3):
        run(visits_reducer_job, broker, source, target, tmp_path / "checkpoint")
        letters = list(map(read_letter, read_topic(f"{target}-dead-letter", broker.kafka)))
        assert [letter.redrives for letter in letters] == list(range(round_ + 1))
        report = redrive(target, broker, max_redrives=2)
        assert report.passed == (round_ < 2)
    assert report.counts == {RedriveOutcome.BEFORE: 2, RedriveOutcome.TOO_OFTEN: 1}
    proof = verify(target, source, broker)
    assert (proof.expected, proof.found, proof.dead_lettered, proof.passed) == (4, 1, 3, True)
    # The checkpoint shows that all records were read.
    checkpoint = tmp_path / "checkpoint"
    result = why_missing(Address(source, 0, 0), target, broker, checkpoint=checkpoint)
    assert (result.fate, len(result.hops)) == (Fate.DEAD_LETTERED, 3)
    send(broker, source, b"later")
    later = why_missing(Address(source, 0, 4), target, broker, checkpoint=checkpoint)
    assert (later.fate, later.verdict.estimate) == (Fate.NOT_YET_READ, False)


def test_a_value_too_large_for_the_output_becomes_a_reference(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    send(broker, source, b"x" * 950_000, b"small")
    run(visits_decorator_job, broker, source, target, tmp_path / "checkpoint")
    assert [record.value for record in read_topic(target, broker.kafka)] == [b"small"]
    (dead,) = read_topic(f"{target}-dead-letter", broker.kafka)
    reference = json.loads(dead.value or b"")
    assert (reference["address"], reference["size"]) == (f"{source}/0@0", 950_000)
    assert len(reference["sha256"]) == 64
    assert redrive(target, broker).passed
    assert [record.value for record in read_topic(source, broker.kafka)][2:] == [b"x" * 950_000]


def _with(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()
