"""Dead letters on a real broker: listed with their reasons, redriven once."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from tests.stamped import dead_letter_headers, delete_before, stamped, write
from tests.support import Headwater

from headwater.delivery.dead_letter import (
    DeadLetterFilter,
    Handled,
    RedriveOutcome,
    RedriveReport,
    redrive,
)
from headwater.errors import InputError
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.model import Address, Header, Record
from headwater.service.wiping import STATE_PATHS
from headwater.settings import Settings
from headwater.testing import free_port
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import trace, verify

pytestmark = pytest.mark.kafka

Lines = list[dict[str, Any]]


class Pipeline:
    """An input, its output, and the dead letters of the output.

    All invalid records are in one partition of the input, which is not that of their key.
    """

    def __init__(self, settings: Settings, make_topic: TopicMaker) -> None:
        self.settings = settings
        self.source, self.output = make_topic("in", partitions=3), make_topic("out", partitions=1)
        self.dead = make_topic("out-dead-letter", partitions=2)
        self.sent = 0

    def fail(
        self, values: Iterable[bytes], *, headers: Iterable[Header] = (), **reason: str
    ) -> list[Address]:
        """Write records to the input and as dead letters; returns their addresses."""
        addresses = []
        with RecordProducer(self.settings.kafka) as producer:
            for value in values:
                address = Address(self.source, 1, self.sent)
                producer.send(self.source, value, b"k", partition=1, headers=headers)
                error_headers = [*dead_letter_headers(str(address), **reason), *headers]
                producer.send(self.dead, value, b"k", partition=1, headers=error_headers)
                addresses.append(address)
                self.sent += 1
        return addresses

    def redrive(self, **options: Any) -> tuple[RedriveReport, list[Handled]]:
        handled: list[Handled] = []
        report = redrive(self.output, self.settings, on_handled=handled.append, **options)
        return report, handled

    def redriven(self, topic: str | None = None) -> list[Record]:
        records = read_topic(topic or self.source, self.settings.kafka)
        return [record for record in records if record.header("redrive_count") is not None]


@pytest.fixture
def pipeline(broker: Settings, make_topic: TopicMaker) -> Pipeline:
    return Pipeline(broker, make_topic)


def lines(done: subprocess.CompletedProcess[str]) -> Lines:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_list_shows_dead_letters_with_their_reasons(
    pipeline: Pipeline, headwater: Headwater
) -> None:
    pipeline.fail([b"not json", b"{", b"\xff\x1b[2J"])
    pipeline.fail([b"{}"], reason="headwater.MissingField", message="field 'page' is missing")
    done = headwater("dead-letter", "list", pipeline.output, "--json")
    assert done.returncode == 0, done.stderr
    first = lines(done)[0]
    assert (first["address"], first["origin"]) == (f"{pipeline.dead}/1@0", f"{pipeline.source}/1@0")
    assert (first["job_name"], first["batch_version"]) == ("job", 4)
    assert (first["reason"], first["value"]) == ("headwater.MalformedJson", "not json")
    assert (first["redrives"], first["redriven"]) == (0, None)
    pipeline.redrive(choice=DeadLetterFilter("headwater.MissingField"))
    shown = headwater("dead-letter", "list", pipeline.dead).stdout
    assert shown.splitlines()[:3] == [
        f"{pipeline.dead}/1@0  headwater.MalformedJson: the value is not a JSON object",
        f"    made from {pipeline.source}/1@0 by job, batch 4",
        "    not json",
    ]
    assert f"{pipeline.dead}: 4 dead letters, 1 redriven\n" in shown
    assert "  3  headwater.MalformedJson\n  1  headwater.MissingField\n" in shown
    assert "\x1b" not in shown
    assert f"redriven as {pipeline.source}/1@4" in shown
    chosen = headwater("dead-letter", "list", pipeline.output, "--max", "2", "--json")
    assert len(lines(chosen)) == 2
    past = headwater("dead-letter", "list", pipeline.output, "--until", "2001-01-01T00:00:00Z")
    assert past.stdout == f"{pipeline.dead}: 0 dead letters, 0 redriven\n"
    assert headwater("dead-letter", "list", pipeline.output, "--since", "noon").returncode == 2


def test_a_redriven_record_is_the_original_and_its_lineage_leads_to_the_dead_letter(
    pipeline: Pipeline, headwater: Headwater
) -> None:
    foreign: list[Header] = [("traceparent", b"00-1"), ("x", None), ("x", b"")]
    (origin,) = pipeline.fail([b"\xff\x00 raw"], headers=foreign)
    done = headwater("dead-letter", "redrive", pipeline.output, "--json")
    assert done.returncode == 0, done.stderr
    assert [line["outcome"] for line in lines(done)] == ["redriven"]
    (record,) = pipeline.redriven()
    assert (record.key, record.value, record.address.partition) == (b"k", b"\xff\x00 raw", 1)
    names = [name for name, _ in record.headers]
    assert names == [
        *("job_name", "job_version", "batch_version", "parent_lineage", "lineage"),
        *("redrive_count", "redrive_of", "traceparent", "x", "x"),
    ]
    assert record.headers[-3:] == tuple(foreign)
    # The output of the redriven record leads to the original one.
    write(pipeline.output, [stamped(str(record.address))], pipeline.settings)
    node = trace(Address(pipeline.output, 0, 0), pipeline.settings)
    path = [str(node.address)]
    jobs = [node.job_name]
    while node.parents:
        (node,) = node.parents
        path.append(str(node.address))
        jobs.append(node.job_name)
    assert path[1:] == [str(record.address), f"{pipeline.dead}/1@0", str(origin)]
    assert jobs == ["job", "headwater_redrive", "job", None]
    report = verify(pipeline.output, pipeline.source, pipeline.settings)
    assert (report.expected, report.found, report.dead_lettered) == (2, 1, 1)
    assert report.passed


def test_a_second_redrive_sends_nothing(pipeline: Pipeline) -> None:
    pipeline.fail([b"%d" % n for n in range(30)])
    first, _ = pipeline.redrive(limit=20)
    assert (first.counts[RedriveOutcome.REDRIVEN], first.passed) == (20, True)
    second, _ = pipeline.redrive()
    assert second.counts == {RedriveOutcome.BEFORE: 20, RedriveOutcome.REDRIVEN: 10}
    third, _ = pipeline.redrive()
    assert third.counts == {RedriveOutcome.BEFORE: 30}
    assert [record.value for record in pipeline.redriven()] == [b"%d" % n for n in range(30)]
    # `down --wipe` removes all that a redrive writes to the home folder.
    assert {path.name for path in pipeline.settings.home_dir.iterdir()} <= set(STATE_PATHS)


@pytest.mark.parametrize("times", [7, 250])
def test_a_killed_redrive_is_completed_by_the_next(
    pipeline: Pipeline, headwater: Headwater, times: int
) -> None:
    values = [b"%d" % n for n in range(300)]
    pipeline.fail(values)
    # During the delay the client sends its buffer: the records exist without acknowledgement.
    faults = f"record_redriven=delay:0.3@{times},record_redriven=kill@{times}"
    killed = headwater(
        "dead-letter", "redrive", pipeline.output, HEADWATER_TESTING__FAULT_POINTS=faults
    )
    assert killed.returncode == -9
    written = len(pipeline.redriven())
    assert 0 < written <= times
    finished = headwater("dead-letter", "redrive", pipeline.output, "--json")
    assert finished.returncode == 0, finished.stderr
    outcomes = Counter(line["outcome"] for line in lines(finished))
    assert outcomes == {"redriven before": written, "redriven": 300 - written}
    assert [record.value for record in pipeline.redriven()] == values


def test_two_redrives_at_once_are_refused(pipeline: Pipeline) -> None:
    pipeline.fail([b"1", b"2"])
    reached, release = threading.Event(), threading.Event()

    def wait(handled: Handled) -> None:
        reached.set()
        release.wait(30)

    thread = threading.Thread(
        target=redrive, args=(pipeline.output, pipeline.settings), kwargs={"on_handled": wait}
    )
    thread.start()
    try:
        assert reached.wait(30)
        with pytest.raises(InputError, match="another redrive"):
            pipeline.redrive()
        # A dry run needs no lock.
        assert pipeline.redrive(dry_run=True)[0].dry_run
    finally:
        release.set()
        thread.join(30)
    assert len(pipeline.redriven()) == 2


def test_a_dry_run_shows_the_letters_and_sends_nothing(
    pipeline: Pipeline, headwater: Headwater
) -> None:
    pipeline.fail([b"1", b"2"])
    done = headwater("dead-letter", "redrive", pipeline.output, "--dry-run")
    assert done.returncode == 0
    assert f"{pipeline.dead}/1@0  would be redriven to {pipeline.source}\n" in done.stdout
    assert "2 would be redriven" in done.stderr
    assert pipeline.redriven() == []


def test_records_are_chosen_by_address_or_reason(pipeline: Pipeline, headwater: Headwater) -> None:
    pipeline.fail([b"0", b"1", b"2"])
    pipeline.fail([b"3"], reason="headwater.BadTimestamp")
    chosen = ("--record", f"{pipeline.dead}/1@1", "--record", f"{pipeline.source}/1@2")
    assert headwater("dead-letter", "redrive", pipeline.output, *chosen).returncode == 0
    pipeline.redrive(choice=DeadLetterFilter("headwater.BadTimestamp"))
    assert [record.value for record in pipeline.redriven()] == [b"1", b"2", b"3"]
    absent = headwater("dead-letter", "redrive", pipeline.output, "--record", "nowhere/0@0")
    assert absent.returncode == 2
    assert "nowhere/0@0" in absent.stderr
    assert len(pipeline.redriven()) == 3


def test_a_record_with_several_dead_letters_is_redriven_once(pipeline: Pipeline) -> None:
    (origin,) = pipeline.fail([b"1"])
    with RecordProducer(pipeline.settings.kafka) as producer:
        for _ in range(2):
            producer.send(
                pipeline.dead, b"1", headers=dead_letter_headers(str(origin)), partition=0
            )
    report, _ = pipeline.redrive()
    assert report.counts == {RedriveOutcome.REDRIVEN: 1, RedriveOutcome.BEFORE: 2}
    assert pipeline.redrive()[0].counts == {RedriveOutcome.BEFORE: 3}


def test_a_record_that_fails_repeatedly_is_refused_at_the_limit(pipeline: Pipeline) -> None:
    pipeline.fail([b"poison"])
    for round_ in range(1, 4):
        report, _ = pipeline.redrive()
        assert report.counts[RedriveOutcome.REDRIVEN] == 1, round_
        # The job sends it to the dead letter topic again, with the headers of the redrive.
        again = pipeline.redriven()[-1]
        foreign = [h for h in again.headers if h[0].startswith("redrive_")]
        with RecordProducer(pipeline.settings.kafka) as producer:
            headers = [*dead_letter_headers(str(again.address)), *foreign]
            producer.send(pipeline.dead, b"poison", b"k", headers=headers, partition=1)
    report, handled = pipeline.redrive()
    assert report.counts == {RedriveOutcome.BEFORE: 3, RedriveOutcome.TOO_OFTEN: 1}
    assert (report.passed, "3 redrives" in handled[-1].why) == (False, True)
    assert pipeline.redrive(max_redrives=4)[0].counts[RedriveOutcome.REDRIVEN] == 1
    assert [record.header("redrive_count") for record in pipeline.redriven()] == [
        *(b"1", b"2", b"3", b"4")
    ]


def test_a_referenced_value_is_fetched_and_compared_with_its_hash(
    pipeline: Pipeline, headwater: Headwater
) -> None:
    large, settings = b"x" * 1_500_000, pipeline.settings
    topic, output = f"{pipeline.source}-large", f"{pipeline.output}-large"
    create_topic(topic, 1, settings.kafka, config={"max.message.bytes": "3000000"})
    create_topic(f"{output}-dead-letter", 1, settings.kafka)
    with RecordProducer(settings.kafka, **{"message.max.bytes": 3_000_000}) as producer:
        for number, data in enumerate((large, large, b"another", large)):
            producer.send(topic, data, b"k", partition=0)
            address = f"{topic}/0@{number}"
            reference = {
                "address": address,
                "size": len(large),
                "sha256": hashlib.sha256(large).hexdigest(),
            }
            value = json.dumps(reference, separators=(",", ":")).encode()
            headers = dead_letter_headers(address, reason="headwater.TooLarge")
            producer.send(f"{output}-dead-letter", value, b"k", headers=headers, partition=0)
    delete_before(topic, 1, settings)
    shown = headwater("dead-letter", "list", output).stdout
    assert "1500000 bytes, by reference" in shown
    done = headwater("dead-letter", "redrive", output, "--json")
    assert done.returncode == 1
    found = {line["origin"]: line for line in lines(done)}
    assert [found[f"{topic}/0@{n}"]["outcome"] for n in range(4)] == [
        *("original gone", "redriven", "not the original", "redriven")
    ]
    assert f"its value was only at {topic}/0@0" in found[f"{topic}/0@0"]["why"]
    assert [record.value for record in pipeline.redriven(topic)] == [large, large]


def test_forged_letters_are_not_sent_to_a_topic_of_their_choice(
    pipeline: Pipeline, make_topic: TopicMaker, headwater: Headwater
) -> None:
    payments = make_topic("payments", partitions=1)
    write(payments, [[]], pipeline.settings)
    forged: list[list[Header]] = [
        dead_letter_headers(f"{payments}/0@0"),  # exists with another value
        dead_letter_headers(f"{payments}/0@99"),  # never existed
        dead_letter_headers("no-such-topic/0@0"),
        [],
        [("__connect.errors.topic", payments.encode()), ("__connect.errors.offset", b"x")],
        [("lineage", b"\x00"), ("__connect.errors.topic", None)],
    ]
    with RecordProducer(pipeline.settings.kafka) as producer:
        for headers in forged:
            producer.send(pipeline.dead, b"forged", headers=headers, partition=0)
    done = headwater("dead-letter", "redrive", pipeline.output, "--json")
    assert done.returncode == 1
    assert [line["outcome"] for line in lines(done)] == [
        *("not the original", "not the original", "original gone"),
        *("no origin", "no origin", "no origin"),
    ]
    assert len(list(read_topic(payments, pipeline.settings.kafka))) == 1
    shown = headwater("dead-letter", "list", pipeline.output)
    assert shown.returncode == 0
    assert shown.stdout.count("no readable headers") == 3
    # An explicit target is used for all but those whose original differs.
    review = make_topic("review", partitions=1)
    counts = [pipeline.redrive(target=review)[0].counts for _ in range(2)]
    assert counts == [
        {RedriveOutcome.REDRIVEN: 5, RedriveOutcome.NOT_THE_ORIGINAL: 1},
        {RedriveOutcome.BEFORE: 5, RedriveOutcome.NOT_THE_ORIGINAL: 1},
    ]
    assert len(pipeline.redriven(review)) == 5


def test_a_forged_letter_with_the_value_of_a_record_adds_no_headers_to_it(
    pipeline: Pipeline, headwater: Headwater
) -> None:
    genuine: list[Header] = [("tenant", b"a"), ("large", bytes(70_000))]
    forged: list[Header] = [("tenant", b"mallory"), ("x-admin", b"true")]
    with RecordProducer(pipeline.settings.kafka) as producer:
        for offset, headers in enumerate((forged, genuine[:1], [], [*genuine, *genuine[:1]])):
            producer.send(pipeline.source, b"value", b"k", partition=1, headers=genuine)
            named = [*dead_letter_headers(f"{pipeline.source}/1@{offset}"), *headers]
            count = [("redrive_count", b"9"), ("redrive_of", f"{pipeline.source}/1@0".encode())]
            producer.send(
                pipeline.dead, b"value", b"other key", partition=1, headers=[*named, *count]
            )
    done = headwater("dead-letter", "redrive", pipeline.output, "--json")
    assert done.returncode == 1
    assert [(line["outcome"], line["why"]) for line in lines(done)] == [
        ("not the original", f"the record at {pipeline.source}/1@0 has no such header 'tenant'"),
        ("redriven", None),
        ("redriven", None),
        ("not the original", f"the record at {pipeline.source}/1@3 has no such header 'tenant'"),
    ]
    # Key, value and headers are those of the original, up to the limits.
    for record in pipeline.redriven():
        assert (record.key, record.value) == (b"k", b"value")
        assert record.headers[-2:] == (("tenant", b"a"), ("lineage_dropped_headers", b"1"))
        assert record.header("redrive_count") == b"1"


def test_a_redrive_is_not_repeated_if_retention_or_compaction_may_have_removed_it(
    pipeline: Pipeline, broker: Settings, make_topic: TopicMaker
) -> None:
    pipeline.fail([b"0", b"1"])
    delete_before(pipeline.source, 1, broker, partition=1)
    # The original is deleted, so its value can't be compared.
    report, handled = pipeline.redrive()
    assert report.counts == {RedriveOutcome.UNPROVEN: 1, RedriveOutcome.REDRIVEN: 1}
    assert "can't be compared" in handled[0].why
    assert pipeline.redrive(allow_unproven=True)[0].counts[RedriveOutcome.REDRIVEN] == 1
    delete_before(pipeline.source, 3, broker, partition=1)
    report, handled = pipeline.redrive()
    assert report.counts == {RedriveOutcome.BEFORE: 1, RedriveOutcome.UNPROVEN: 1}
    assert f"{pipeline.source}/1 starts at 3" in handled[1].why
    assert pipeline.redrive(allow_unproven=True)[0].counts[RedriveOutcome.REDRIVEN] == 1
    compacted = f"{pipeline.source}-compacted"
    create_topic(compacted, 1, broker.kafka, config={"cleanup.policy": "compact"})
    assert pipeline.redrive(target=compacted)[0].counts == {RedriveOutcome.UNPROVEN: 2}


def test_a_stopped_broker_and_a_missing_topic_have_their_exit_codes(
    broker: Settings, headwater: Headwater
) -> None:
    missing = headwater("dead-letter", "list", "no-such-topic")
    assert missing.returncode == 2
    assert "no-such-topic-dead-letter" in missing.stderr
    for command in ("list", "redrive"):
        stopped = headwater(
            "dead-letter",
            command,
            "any",
            KAFKA_BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}",
            HEADWATER_KAFKA__TIMEOUT_SECONDS="1",
        )
        assert stopped.returncode == 3
