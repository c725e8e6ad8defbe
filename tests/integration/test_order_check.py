"""Order checks of an unordered writer: afterwards, and while it writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.stamped import dead_letter_headers, delete_before, stamped, write
from tests.support import Headwater, environment

from headwater.kafka import RecordProducer
from headwater.settings import Settings
from headwater.testing import free_port
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import OrderCheck, OrderViolation, Violation, verify

pytestmark = pytest.mark.kafka

# Offset -> key: two keys that alternate.
KEYS = [b"a", b"b"] * 10
# 4 and 6 of key a are swapped, as are 5 and 7 of key b; 9 of key b is duplicated; 12 is missing.
UNORDERED = [0, 1, 2, 3, 6, 7, 4, 5, 8, 9, 10, 9, 11, *range(13, 20)]


@pytest.fixture
def source(broker: Settings, make_topic: TopicMaker) -> str:
    topic = make_topic("in", partitions=1)
    with RecordProducer(broker.kafka) as producer:
        for key in KEYS:
            producer.send(topic, b"{}", key, partition=0)
    return topic


@pytest.fixture
def output(make_topic: TopicMaker) -> str:
    return make_topic("out", partitions=1)


def write_outputs(source: str, output: str, offsets: Sequence[int], settings: Settings) -> None:
    with RecordProducer(settings.kafka) as producer:
        for offset in offsets:
            headers = stamped(f"{source}/0@{offset}")
            producer.send(output, b"{}", KEYS[offset], headers=headers, partition=0)


def follow(check: OrderCheck, judged: int) -> list[OrderViolation]:
    violations = []
    for _ in range(200):
        violations += check.step()
        if check.report.judged >= judged:
            return violations
    raise AssertionError(check.report)


def test_violations_of_an_unordered_writer_are_reported_by_key(
    broker: Settings, source: str, output: str, headwater: Headwater, tmp_path: Path
) -> None:
    write_outputs(source, output, UNORDERED, broker)
    file = tmp_path / "order.prom"
    arguments = ["verify", output, "--source", source, "--order"]
    done = headwater(*arguments, "--json", "--metrics-file", str(file))
    assert done.returncode == 1, done.stderr
    content = json.loads(done.stdout)
    assert content["keys_affected"] == 2
    a, b = sorted(content["keys"], key=lambda each: str(each["key"]))
    assert (a["key"], a["inversions"], a["gaps"], a["duplicates"]) == ("a", 1, 1, 0)
    assert (b["key"], b["inversions"], b["gaps"], b["duplicates"]) == ("b", 1, 0, 1)
    assert a["examples"]["inversions"] == [
        {
            "record": f"{output}/0@6",
            "parent": f"{source}/0@4",
            "after": f"{source}/0@6",
            "key": "a",
        }
    ]
    assert a["examples"]["gaps"] == [{"record": f"{source}/0@12"}]
    assert b["examples"]["duplicates"] == [{"record": f"{output}/0@11", "parent": f"{source}/0@9"}]
    assert f'headwater_order_violations_total{{kind="inversion",topic="{output}"}} 2.0' in (
        file.read_text()
    )
    shown = headwater(*arguments)
    assert shown.returncode == 1
    assert "keys with violations: 2" in shown.stdout
    assert f"gap {source}/0@12" in shown.stdout


def test_an_ordered_writer_passes_afterwards_and_live(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    write_outputs(source, output, range(20), broker)
    shown = headwater("verify", output, "--source", source, "--order")
    assert shown.returncode == 0, shown.stdout
    assert "every key is in order" in shown.stdout
    live = headwater("verify", output, "--source", source, "--follow", "--max", "20")
    assert live.returncode == 0, live.stdout + live.stderr
    assert live.stdout == (
        f"{output}, made from {source}: in order; 20 checked, 0 inversions, 0 gaps, 0 duplicates\n"
    )


def test_an_unordered_writer_is_detected_while_it_writes(
    broker: Settings, source: str, output: str, tmp_path: Path
) -> None:
    port = free_port()
    arguments = [sys.executable, "-m", "headwater", "verify", output, "--source", source]
    arguments += ["--order", "--follow", "--json", "--settle", "1", "--metrics-port", str(port)]
    watcher = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(broker),
        cwd=tmp_path,
    )
    kill_timer = threading.Timer(60, watcher.kill)
    kill_timer.start()
    try:
        lines = lines_of(watcher)
        # These are in order: the first line can only come from later records.
        write_outputs(source, output, UNORDERED[:4], broker)
        write_outputs(source, output, UNORDERED[4:7], broker)
        first = next(lines)
        assert (first["kind"], first["key"], first["record"]) == ("inversion", "a", f"{output}/0@6")
        write_outputs(source, output, UNORDERED[7:], broker)
        rest = [next(lines) for _ in range(3)]
        assert [(each["kind"], each["key"]) for each in rest] == [
            ("inversion", "b"),
            ("duplicate", "b"),
            ("gap", "a"),
        ]
        assert rest[2]["record"] == f"{source}/0@12"
        assert rest[2]["after"] == f"{output}/0@{UNORDERED.index(14)}"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
            counters = response.read().decode()
        for kind, number in (("inversion", 2), ("gap", 1), ("duplicate", 1)):
            labels = f'kind="{kind}",topic="{output}"'
            assert f"headwater_order_violations_total{{{labels}}} {number}.0" in counters
        watcher.send_signal(signal.SIGTERM)
        end = next(lines)
        assert (end["kind"], end["judged"], end["passed"]) == ("end", len(UNORDERED), False)
        assert (end["inversions"], end["gaps"], end["duplicates"]) == (2, 1, 1)
        assert watcher.wait(30) == 1
    finally:
        kill_timer.cancel()
        watcher.kill()
        watcher.communicate()


def lines_of(watcher: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert watcher.stdout is not None
    for line in watcher.stdout:
        yield json.loads(line)


def test_live_and_later_checks_report_the_same_violations(
    broker: Settings, source: str, output: str
) -> None:
    write_outputs(source, output, UNORDERED, broker)
    with OrderCheck(output, source, broker, settle_seconds=3600) as check:
        violations = follow(check, len(UNORDERED))
        # A swap looks like a gap until the second record arrives.
        assert Violation.GAP not in {each.kind for each in violations}
        check.finish()
        assert dict(check.report.violations) == verify(output, source, broker).violations


def test_a_record_with_a_dead_letter_is_not_a_gap(
    broker: Settings, source: str, output: str, make_topic: TopicMaker
) -> None:
    dead = make_topic("out-dead-letter", partitions=1)
    write(dead, [dead_letter_headers(f"{source}/0@12")], broker, key=b"a")
    write_outputs(source, output, [n for n in range(20) if n != 12], broker)
    with OrderCheck(output, source, broker, settle_seconds=0) as check:
        follow(check, 19)
        check.finish()
        assert check.report.passed, check.report


def test_allow_filtered_ignores_gaps(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    write_outputs(source, output, range(0, 20, 4), broker)
    arguments = ["verify", output, "--source", source, "--follow", "--max", "5", "--settle", "0"]
    assert headwater(*arguments).returncode == 1
    assert headwater(*arguments, "--allow-filtered").returncode == 0


def test_missing_lineage_and_unknown_parents_fail(
    broker: Settings, source: str, output: str
) -> None:
    write_outputs(source, output, [0, 1], broker)
    write(output, [[], stamped(f"{source}/0@20"), stamped(f"{source}/7@0")], broker)
    with OrderCheck(output, source, broker) as check:
        assert follow(check, 5) == []
        report = check.report
        assert (report.without_lineage, report.unknown_parents, report.passed) == (1, 2, False)


def test_an_empty_topic_fails(
    broker: Settings, source: str, output: str, headwater: Headwater
) -> None:
    done = headwater("verify", output, "--source", source, "--follow", "--for", "0.2")
    assert done.returncode == 1
    assert "0 checked" in done.stdout


def test_a_source_with_expired_records_is_checked_from_its_first_offset(
    broker: Settings, source: str, output: str
) -> None:
    write_outputs(source, output, [0, 1, 2, 3, 4, 7, 5, 8], broker)
    delete_before(source, 6, broker)
    with OrderCheck(output, source, broker) as check:
        violations = [*follow(check, 8), *check.finish()]
        assert [(each.kind, str(each.finding.record)) for each in violations] == [
            (Violation.INVERSION, f"{output}/0@6"),
            (Violation.GAP, f"{source}/0@6"),
        ]


def test_added_partitions_are_followed(broker: Settings, source: str, output: str) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    now = 0.0
    with OrderCheck(output, source, broker, clock=lambda: now) as check:
        write_outputs(source, output, [0, 1], broker)
        follow(check, 2)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        added = admin.create_partitions([NewPartitions(source, 2), NewPartitions(output, 2)])
        for future in added.values():
            future.result(30)
        write(source, [[], []], broker, partition=1)
        write(output, [stamped(f"{source}/1@1"), stamped(f"{source}/1@0")], broker, partition=1)
        now = 11.0
        violations = follow(check, 4)
        assert [each.kind for each in violations] == [Violation.INVERSION]
        assert check.report.unknown_parents == 0
