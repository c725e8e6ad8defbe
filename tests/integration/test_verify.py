"""`verify` with a real broker: violations are counted and shown."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint
from tests.stamped import delete_before, open_transaction, stamped, write, write_transaction
from tests.support import Headwater

from headwater.errors import InputError, TopicNotFoundError
from headwater.kafka import RecordProducer, create_topic
from headwater.settings import Settings
from headwater.testing import free_port
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import verify

pytestmark = pytest.mark.kafka


@pytest.fixture
def source(broker: Settings, make_topic: TopicMaker) -> str:
    """20 records, all of one key."""
    topic = make_topic("in", partitions=1)
    write(topic, [[]] * 20, broker)
    return topic


@pytest.fixture
def output(make_topic: TopicMaker) -> str:
    return make_topic("out", partitions=1)


def test_every_record_once_and_in_order_is_full(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    write(output, [stamped(f"{source}/0@{n}") for n in range(20)], broker)
    done = headwater("verify", output, "--source", source, "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    keys = "expected found missing duplicates out_of_order without_lineage coverage state"
    assert [content[key] for key in keys.split()] == [20, 20, 0, 0, 0, 0, 1.0, "full"]
    shown = headwater("verify", output, "--source", source)
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"{output}, made from {source}: full, 100 %")


def test_lost_records_are_counted_and_named(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    kept = [n for n in range(20) if n not in {3, 7, 8, 9, 19}]
    write(output, [stamped(f"{source}/0@{n}") for n in kept], broker)
    report = verify(output, source, broker)
    assert (report.state.value, report.found, report.missing, report.gaps) == ("partial", 15, 5, 3)
    assert report.coverage == 0.75
    assert [(gap.first.offset, gap.last.offset) for gap in report.gap_examples] == [
        (3, 3),
        (7, 9),
        (19, 19),
    ]
    shown = headwater("verify", output, "--source", source, "--order")
    assert shown.returncode == 1
    assert f"missing: {source}/0@7 to {source}/0@9" in shown.stdout.splitlines()


def test_duplicates_are_counted_and_fail_the_check(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    # The last ten records of the batch were written twice.
    numbers = [*range(20), *range(10, 20)]
    write(output, [stamped(f"{source}/0@{n}") for n in numbers], broker)
    done = headwater("verify", output, "--source", source, "--json")
    content = json.loads(done.stdout)
    assert (done.returncode, content["state"], content["duplicates"]) == (1, "full", 10)
    assert content["out_of_order"] == 0
    first = content["examples"]["duplicates"][0]
    assert first == {"record": f"{output}/0@20", "parent": f"{source}/0@10"}


def test_an_unordered_writer_is_detected(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    source, output = make_topic("in", partitions=1), make_topic("out", partitions=1)
    keys = [b"a", b"b", b"c"]
    order = list(range(300))
    random.Random(3).shuffle(order)  # noqa: S311 - a fixed disorder
    with RecordProducer(broker.kafka) as producer:
        for number in range(300):
            producer.send(source, b"{}", keys[number % 3], partition=0)
        for number in order:
            headers = stamped(f"{source}/0@{number}")
            producer.send(output, b"{}", keys[number % 3], headers=headers, partition=0)
    expected, newest = 0, dict.fromkeys(range(3), -1)
    for number in order:
        expected += number < newest[number % 3]
        newest[number % 3] = max(newest[number % 3], number)
    report = verify(output, source, broker)
    assert report.out_of_order == expected > 200
    assert (report.state.value, report.passed) == ("full", False)
    shown = headwater("verify", output, "--source", source, "--order")
    assert shown.returncode == 1
    assert "comes after one made from" in shown.stdout


def test_missing_lineage_and_invalid_claims_are_counted(
    broker: Settings, source: str, output: str
) -> None:
    good = [stamped(f"{source}/0@{n}") for n in range(20)]
    write(output, [*good, [], stamped()[:3]], broker)
    report = verify(output, source, broker)
    assert (report.state.value, report.without_lineage, report.passed) == ("full", 2, False)
    write(output, [[("lineage", b"\x00")], stamped(f"{source}/0@20"), stamped("x/0@1")], broker)
    report = verify(output, source, broker)
    assert (report.state.value, report.unreadable, report.unknown_parents) == ("corrupt", 1, 1)
    assert (report.without_lineage, report.other_sources) == (3, ["x"])


def test_an_empty_source_or_topic_fails(
    broker: Settings, make_topic: TopicMaker, source: str, output: str, headwater: Headwater
) -> None:
    empty = make_topic("empty")
    assert verify(output, empty, broker).state.value == "empty"
    done = headwater("verify", output, "--source", empty, "--json")
    assert (done.returncode, json.loads(done.stdout)["coverage"]) == (1, 0)
    missing = headwater("verify", output, "--source", source, "--json")
    assert (missing.returncode, json.loads(missing.stdout)["state"]) == (1, "missing")
    write(output, [[]] * 20, broker)
    without = verify(output, source, broker)
    assert (without.state.value, without.without_lineage) == ("missing", 20)


def test_dead_lettered_records_are_counted_separately(
    broker: Settings, source: str, output: str
) -> None:
    dead = f"{output}-dead-letter"
    create_topic(dead, 1, broker.kafka)
    write(output, [stamped(f"{source}/0@{n}") for n in range(15)], broker)
    # 14 was redriven and is found; 15 has two dead letters.
    write(dead, [stamped(f"{source}/0@{n}") for n in (14, 15, 15, 16, 17, 18)], broker)
    write(dead, [[], [("lineage", b"?")]], broker)
    report = verify(output, source, broker)
    assert (report.found, report.dead_lettered, report.missing) == (15, 4, 1)
    assert report.state.value == "partial"
    write(dead, [stamped(f"{source}/0@19")], broker)
    assert verify(output, source, broker).passed


def test_filtered_records_need_allow_filtered_and_a_checkpoint_that_has_read_them(
    broker: Settings, source: str, output: str, headwater: Headwater, tmp_path: Path
) -> None:
    write(output, [stamped(f"{source}/0@{n}") for n in range(0, 16, 2)], broker)
    report = verify(output, source, broker)
    assert (report.state.value, report.filtered, report.missing) == ("partial", 0, 12)
    with pytest.raises(InputError, match="no checkpoint") as error:
        verify(output, source, broker, allow_filtered=True)
    assert "--checkpoint" in str(error.value.hint)
    checkpoint = write_checkpoint(
        tmp_path / "c",
        source,
        started={0: 2},
        committed={0: 16},
        planned={0: 20},
        outputs=(output,),
    )
    # 1 is before the starting offset, and 16 to 19 are in an uncommitted batch.
    report = verify(output, source, broker, allow_filtered=True, checkpoint=checkpoint)
    assert (report.found, report.filtered, report.missing) == (8, 7, 5)
    assert [(gap.first.offset, gap.last.offset) for gap in report.gap_examples] == [
        (1, 1),
        (16, 19),
    ]
    write_checkpoint(checkpoint, source, committed={0: 20}, planned={0: 20}, outputs=(output,))
    (checkpoint / "offsets/8").unlink()
    options = ("--allow-filtered", "--checkpoint", str(checkpoint), "--json")
    done = headwater("verify", output, "--source", source, *options)
    content = json.loads(done.stdout)
    assert (done.returncode, content["state"], content["filtered"]) == (0, "full", 12)
    alone = headwater("verify", output, "--source", source, *options[1:])
    assert (alone.returncode, json.loads(alone.stdout)["filtered"]) == (1, 0)
    write_checkpoint(checkpoint, source, committed={0: 20}, outputs=("elsewhere",))
    with pytest.raises(InputError, match="no checkpoint"):
        verify(output, source, broker, allow_filtered=True, checkpoint=checkpoint)


def test_unlisted_parents_make_missing_records_uncertain(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    listed = [f"{source}/0@{n}" for n in range(8)]
    write(output, [stamped(*listed, unlisted=12)], broker)
    done = headwater("verify", output, "--source", source, "--json")
    content = json.loads(done.stdout)
    keys = ("state", "found", "missing", "surely_missing", "unlisted_parents")
    assert [content[key] for key in keys] == ["uncertain", 8, 12, 0, 12]
    assert done.returncode == 1
    write(source, [[]] * 3, broker)
    report = verify(output, source, broker)
    assert (report.state.value, report.missing, report.surely_missing) == ("partial", 15, 3)
    # Other outputs name the rest, so the unlisted parents no longer matter.
    write(output, [stamped(f"{source}/0@{n}", job="each") for n in range(8, 23)], broker)
    assert verify(output, source, broker).state.value == "full"


def test_transaction_markers_and_aborted_records_are_not_expected(
    broker: Settings, make_topic: TopicMaker, output: str
) -> None:
    source = make_topic("transactions", partitions=1)
    write_transaction(source, [b"1", b"2"], broker)
    write_transaction(source, [b"dropped"] * 3, broker, abort=True)
    write_transaction(source, [b"3"], broker)
    write(output, [stamped(f"{source}/0@{n}") for n in (0, 1, 7)], broker)
    report = verify(output, source, broker)
    assert (report.expected, report.state.value, report.gone_parents) == (3, "full", 0)
    # An output of an aborted record is counted, although it is not a loss.
    write(output, [stamped(f"{source}/0@3")], broker)
    report = verify(output, source, broker)
    assert (report.found, report.gone_parents) == (3, 1)
    producer = open_transaction(source, [b"not yet"], broker)
    assert verify(output, source, broker).expected == 3
    producer.abort_transaction(30)


def test_records_removed_by_retention_are_not_expected(
    broker: Settings, source: str, output: str
) -> None:
    write(output, [stamped(f"{source}/0@{n}") for n in range(20)], broker)
    delete_before(source, 12, broker)
    report = verify(output, source, broker)
    assert (report.expected, report.found, report.gone_parents) == (8, 8, 12)
    assert report.passed


def test_a_join_is_verified_against_each_of_its_sources(
    broker: Settings, make_topic: TopicMaker, source: str, output: str
) -> None:
    ads = make_topic("ads", partitions=2)
    write(ads, [[]] * 5, broker, partition=1)
    both = [stamped(f"{source}/0@{n}", f"{ads}/1@{n % 5}") for n in range(20)]
    write(output, both, broker)
    for each, expected in ((source, 20), (ads, 5)):
        report = verify(output, each, broker)
        assert (report.found, report.passed, len(report.other_sources)) == (expected, True, 1)


def test_partitions_are_checked_separately(broker: Settings, make_topic: TopicMaker) -> None:
    source, output = make_topic("in", partitions=3), make_topic("out", partitions=2)
    for partition in range(3):
        write(source, [[]] * 10, broker, partition=partition)
        made = [stamped(f"{source}/{partition}@{n}") for n in range(10)]
        write(output, made, broker, partition=partition % 2)
    assert verify(output, source, broker).passed


def test_a_wrong_source_is_refused_with_the_actual_parent_topics(
    broker: Settings, make_topic: TopicMaker, source: str, output: str, headwater: Headwater
) -> None:
    further = make_topic("further", partitions=1)
    write(output, [stamped(f"{source}/0@{n}") for n in range(20)], broker)
    write(further, [stamped(f"{output}/0@{n}") for n in range(20)], broker)
    with pytest.raises(InputError) as error:
        verify(further, source, broker)
    assert error.value.attributes["parents_in"] == [output]
    done = headwater("verify", further, "--source", source)
    assert done.returncode == 2
    assert f"headwater verify {further} --source {output}" in done.stderr


def test_a_missing_topic_is_refused(broker: Settings, source: str, headwater: Headwater) -> None:
    for topic, of in (("never-made", source), (source, "never-made")):
        with pytest.raises(TopicNotFoundError):
            verify(topic, of, broker)
    assert headwater("verify", "never-made", "--source", source).returncode == 2
    assert headwater("verify", source).returncode == 2


def test_an_unreachable_broker_exits_with_3_within_the_timeout(headwater: Headwater) -> None:
    started = time.monotonic()
    done = headwater(
        "verify",
        "a",
        "--source",
        "b",
        KAFKA_BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}",
        HEADWATER_KAFKA__TIMEOUT_SECONDS="1",
        timeout=30,
    )
    assert done.returncode == 3
    assert time.monotonic() - started < 15
