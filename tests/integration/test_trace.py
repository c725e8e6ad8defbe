"""`trace` with a real broker: hops, expired records, and invalid claims."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.stamped import RUN, delete_before, stamped, write, write_transaction
from tests.support import Headwater

from headwater.kafka import RecordReader
from headwater.model import Address, Header
from headwater.settings import Settings
from headwater.testing import assert_lineage, free_port
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import RecordState, TraceNode, trace

pytestmark = pytest.mark.kafka

# Control characters for a terminal, and characters that could break the output format.
NASTY = 'a\r\nb\x1b[2J\x1b]0;t\x07", "state": "x"}, {=,\u202e'


def states(node: TraceNode) -> list[str]:
    """The states from the record down its first parents."""
    values = [node.state.value]
    while node.parents:
        node = node.parents[0]
        values.append(node.state.value)
    return values


def three_hops(settings: Settings, make_topic: TopicMaker) -> tuple[str, str, str]:
    visits, decorated, reduced = (make_topic(n, partitions=1) for n in ("v", "v-d", "v-r"))
    write(visits, [[]] * 5, settings)
    write(decorated, [stamped(f"{visits}/0@{n}", job="decorator") for n in range(5)], settings)
    write(reduced, [stamped(f"{decorated}/0@{n}", job="reducer") for n in range(5)], settings)
    return visits, decorated, reduced


def test_a_record_is_followed_over_three_hops(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    visits, decorated, reduced = three_hops(broker, make_topic)
    content = json.loads(headwater("trace", f"{reduced}/0@3", "--json").stdout)
    hops = []
    while content:
        hops.append({key: content[key] for key in ("topic", "offset", "job_name", "state")})
        assert content["run_id"] == (RUN if content["job_name"] else None)
        content = next(iter(content["parents"]), None)
    assert hops == [
        {"topic": reduced, "offset": 3, "job_name": "reducer", "state": "found"},
        {"topic": decorated, "offset": 3, "job_name": "decorator", "state": "found"},
        {"topic": visits, "offset": 3, "job_name": None, "state": "found"},
    ]


def test_the_text_output_is_a_tree(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    visits, decorated, reduced = three_hops(broker, make_topic)
    shown = headwater("trace", f"{reduced}/0@3", "--values")
    assert shown.stdout.splitlines() == [
        f"{reduced}/0@3  found  reducer v1.0.0, batch 4  run {RUN}",
        "│   {}",
        f"└── {decorated}/0@3  found  decorator v1.0.0, batch 4  run {RUN}",
        "    │   {}",
        f"    └── {visits}/0@3  found  source record",
        "            {}",
    ]
    cut = headwater("trace", f"{reduced}/0@3", "--depth", "1").stdout
    assert "    └── … more parents, not followed" in cut
    assert f"{visits}/0" not in cut


def test_records_removed_by_retention_are_expired(broker: Settings, make_topic: TopicMaker) -> None:
    visits, decorated, reduced = three_hops(broker, make_topic)
    with RecordReader(broker.kafka) as reader:
        assert states(trace(Address(reduced, 0, 1), broker, reader=reader)) == ["found"] * 3
        delete_before(visits, 2, broker)
        node = trace(Address(reduced, 0, 1), broker, reader=reader)
        assert states(node) == ["found", "found", "expired"]
        delete_before(decorated, 2, broker)
        node = trace(Address(reduced, 0, 1), broker, reader=reader)
        assert states(node) == ["found", "expired"]
        assert states(trace(Address(reduced, 0, 2), broker, reader=reader)) == ["found"] * 3


def test_an_expired_record_exits_with_0_and_one_that_never_existed_with_2(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    visits, _, _ = three_hops(broker, make_topic)
    delete_before(visits, 2, broker)
    expired = headwater("trace", f"{visits}/0@1", "--json")
    assert (expired.returncode, json.loads(expired.stdout)["state"]) == (0, "expired")
    for address in (f"{visits}/0@5", f"{visits}/9@0", "never-made/0@0"):
        refused = headwater("trace", address, "--json")
        assert (refused.returncode, json.loads(refused.stdout)["state"]) == (2, "unverified")
        assert f"no record at {address}" in refused.stderr
    for text in ("visits", "visits/0@x", "visits/0@-1", "a b/0@1"):
        assert headwater("trace", text).returncode == 2


def test_a_parent_of_an_aborted_transaction_is_not_found(
    broker: Settings, make_topic: TopicMaker
) -> None:
    source, output = make_topic("in", partitions=1), make_topic("out", partitions=1)
    write_transaction(source, [b"dropped"], broker, abort=True)
    write_transaction(source, [b"kept"], broker)
    write(output, [stamped(f"{source}/0@0"), stamped(f"{source}/0@2")], broker)
    node = trace(Address(output, 0, 0), broker)
    assert node.parents[0].state is RecordState.EXPIRED
    assert "aborted" in (node.parents[0].reason or "")
    assert states(trace(Address(output, 0, 1), broker)) == ["found", "found"]


def test_forged_parents_end_as_unverified(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    source, output = make_topic("in", partitions=1), make_topic("out", partitions=1)
    write(source, [[]], broker)
    forged = [f"{source}/0@{2**63 - 1}", f"{source}/7@0", "other-cluster/0@1", f"{source}/0@1"]
    claims: list[list[Header]] = [
        stamped(*forged, f"{source}/0@0"),
        stamped(f"{output}/0@1"),
        [*stamped()[:3], ("lineage", b"2 of another version")],
        [*stamped()[:3], ("lineage", None)],
        [("lineage", b"\xff\x00" * 30_000)],
        stamped(*(f"{source}/0@0" for _ in range(500))),
    ]
    write(output, claims, broker)
    with RecordReader(broker.kafka) as reader:
        nodes = [trace(Address(output, 0, n), broker, reader=reader) for n in range(len(claims))]
    assert [parent.state.value for parent in nodes[0].parents] == ["unverified"] * 4 + ["found"]
    assert [node.state.value for node in nodes[1:5]] == ["unverified"] * 4
    assert all(node.reason and not node.parents for node in nodes[1:5])
    assert [parent.address.offset for parent in nodes[5].parents] == [0]
    shown = headwater("trace", f"{output}/0@1")
    assert shown.returncode == 0
    assert "names the record itself as a parent" in shown.stdout


def test_a_cycle_of_records_ends(broker: Settings, make_topic: TopicMaker) -> None:
    a, b = make_topic("a", partitions=1), make_topic("b", partitions=1)
    write(a, [stamped(f"{b}/0@0")], broker)
    write(b, [stamped(f"{a}/0@0")], broker)
    node = trace(Address(a, 0, 0), broker)
    assert states(node) == ["found", "found", "unverified"]


def test_names_from_headers_are_escaped_in_text_and_exact_in_json(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    source, output = make_topic("in", partitions=1), make_topic("out", partitions=1)
    write(source, [[]], broker)
    (_, *others) = stamped(f"{source}/0@0")
    write(output, [stamped(f"{source}/0@0", job=NASTY), [("job_name", b"\xff"), *others]], broker)
    text = headwater("trace", f"{output}/0@0").stdout
    assert len(text.splitlines()) == 2
    assert not set(text) & {"\r", "\x1b", "\x07", "\u202e"}
    assert "a\\x0d\\x0ab\\x1b[2J" in text
    shown = headwater("trace", f"{output}/0@0", "--json").stdout
    assert json.loads(shown)["job_name"] == NASTY
    assert not set(shown) & {"\r", "\x1b", "\x07", "\u202e"}
    not_text: dict[str, Any] = json.loads(headwater("trace", f"{output}/0@1", "--json").stdout)
    assert not_text["job_name"] == {"base64": "/w=="}
    assert "\\xff" in headwater("trace", f"{output}/0@1").stdout


def test_a_chain_over_one_topic_is_bounded_and_printed(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater
) -> None:
    topic = make_topic(partitions=1)
    write(topic, [[], *(stamped(f"{topic}/0@{n}") for n in range(400))], broker)
    for depth, hops in ((), 100), (("--depth", "200"), 200), (("--depth", "0"), 0):
        done = headwater("trace", f"{topic}/0@400", "--json", *depth)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count('"topic"') == hops + 1
        assert done.stdout.count('"truncated": true') == 1
    assert len(headwater("trace", f"{topic}/0@400").stdout.splitlines()) == 102
    assert headwater("trace", f"{topic}/0@400", "--depth", "201").returncode == 2


def test_an_unreachable_broker_exits_with_3(headwater: Headwater) -> None:
    done = headwater(
        "trace",
        "visits/0@0",
        KAFKA_BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}",
        HEADWATER_KAFKA__TIMEOUT_SECONDS="1",
        timeout=30,
    )
    assert done.returncode == 3
    assert "HEADWATER_KAFKA__TIMEOUT_SECONDS" in done.stderr


def test_assert_lineage_reads_the_record(broker: Settings, make_topic: TopicMaker) -> None:
    visits, decorated, _ = three_hops(broker, make_topic)
    address = f"{decorated}/0@2"
    assert_lineage(address, parents=[f"{visits}/0@2"], job_name="decorator", settings=broker)
    with pytest.raises(AssertionError, match=f"missing parent: {visits}/0@1"):
        assert_lineage(address, parents=[f"{visits}/0@1"], settings=broker)
    with pytest.raises(AssertionError, match="beyond the end"):
        assert_lineage(f"{decorated}/0@99", parents=[], settings=broker)
