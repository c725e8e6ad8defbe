"""Parsing headers and joining edges with Spark, compared with the codec and a plain model."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from pyspark.sql import Row, SparkSession
from tests.stamped import RUN, stamped

from headwater.model import Address, AddressRange, Header, Lineage, Record
from headwater.model.header import origin_of
from headwater.spark.writers.index_parse import parse_lineage
from headwater.spark.writers.index_ranges import edges_of, join_edges, made_of, within_of
from headwater.storage.index.contract import MAX_INDEXED_PARENTS

pytestmark = pytest.mark.spark

EDGES = (
    "parent_topic string, parent_partition int, parent_first bigint, parent_last bigint, "
    "topic string, partition int, first bigint"
)
KAFKA = "topic string, partition int, offset bigint, headers array<struct<key:string,value:binary>>"


def lineage(text: str) -> list[Header]:
    return [("lineage", text.encode("latin-1"))]


def many(number: int) -> str:
    return ",".join(f"in/0@{n}" for n in range(number))


HEADERS: list[list[Header] | None] = [
    None,
    [("traceparent", b"00")],
    stamped("in/0@1"),
    stamped("in/0@1", "other.topic_x-1/7@9223372036854775807", ordinal=3),
    stamped("in/0@1", "in/0@1"),
    stamped("in/0@2", unlisted=936),
    stamped(),
    lineage("1 - in/0@5"),
    lineage("1 - in/0@5,in/0@6,+12 =" + "0f" * 16),
    lineage("1 - -,+12"),
    lineage("1 - -/0@1"),
    [*lineage("1 - in/0@5"), *lineage("1 - in/0@6")],
    [("lineage", None)],
    [("lineage", b"")],
    [("lineage", b"\xff\xfe")],
    lineage("2 - in/0@5"),
    lineage("1 - in/0@5 "),
    lineage("1 - in/0@5\n"),
    lineage("1 - in/0@5 #1 #2"),
    lineage("1  in/0@5"),
    lineage("1 - in/0@5,"),
    lineage("1 - ./0@5"),
    lineage("1 - in/0@9223372036854775808"),
    lineage("1 - in/2147483648@5"),
    lineage("1 - in/0@5,in/0@-6"),
    lineage(f"1 {RUN.upper()} in/0@5"),
    lineage(f"1 - {'t' * 249}/0@5"),
    lineage(f"1 - {'t' * 250}/0@5"),
    # The maximum length of a header, and longer.
    lineage("1 - " + ",".join(["in/0@5"] * 9361) + ",+1234"),
    lineage("1 - " + ",".join(["in/0@5"] * 9361) + ",+12345678"),
    lineage("1 - " + many(MAX_INDEXED_PARENTS + 5) + ",+7"),
    lineage("1 - out/0@999"),
    lineage(f"2 {RUN} ~in/0@3..17"),
    lineage("2 - in/0@5,~in/0@3..17,~a..b/2@0..9223372036854775807,?,~in/0@3..17 #4"),
    lineage("2 - in/0@5 b12"),
    lineage("2 - in/0@5,+3 =" + "0f" * 16 + " b12 >in-parents/0@4"),
    lineage("2 - ?"),
    lineage("2 - ?,?,+2"),
    lineage("2 - ~in/0@4..3"),
    lineage("2 - ~in/0@4..9223372036854775808"),
    lineage("2 - ~in/0@4"),
    lineage("2 - ~./0@4..5"),
    lineage("1 - ~in/0@3..17"),
    lineage("1 - in/0@5 b12"),
    lineage("2 - in/0@5 b12 #1"),
    lineage("2 - ~out/0@0..999"),
    lineage("2 - " + ",".join(f"~in/0@{n}..{n}" for n in range(MAX_INDEXED_PARENTS + 3)) + ",?"),
    lineage("3 - in/0@5"),
    lineage(f"3 {RUN} in/0@5..9,a..b/2@3,~in/0@3..17,?,in/1@7..7 #1 b12"),
    lineage("3 - in/0@1..999,in/1@0"),
    lineage("3 - in/0@1..999,in/1@0..1"),
    lineage("3 - in/0@0..9223372036854775807"),
    lineage("3 - in/0@9..5"),
    lineage("3 - in/0@5..9223372036854775808"),
    lineage("3 - ./0@5..6"),
    lineage("3 - in/2147483648@5..6"),
    lineage("3 - in/0@5.."),
    lineage("3 - " + ",".join(["in/0@0..999"] * 4000)),
    lineage("3 - out/0@0..999"),
    lineage("2 - in/0@5..9"),
    lineage("4 - in/0@5"),
    [("job_name", b"\xff name"), ("job_version", b"v" * 2000), ("batch_version", b"12x")],
]


def test_a_header_is_parsed_like_by_the_codec(spark: SparkSession) -> None:
    rows = [("out", 0, offset, headers) for offset, headers in enumerate(HEADERS)]
    frame = spark.createDataFrame(rows, KAFKA)
    found = {row["offset"]: row for row in parse_lineage(frame).collect()}
    for offset, headers in enumerate(HEADERS):
        address = Address("out", 0, offset)
        origin = origin_of(Record(address, None, None, tuple(headers or ())))
        row = found[offset]
        if origin.unreadable is not None:
            assert row["lineage"] == "unreadable", headers
            assert row["parents"] == []
            continue
        expected = origin.lineage or Lineage(None, ())
        forged = any(p.topic == "out" and p.offset >= offset for p in expected.parents)
        forged |= any(r.topic == "out" and r.last >= offset for r in expected.ranges)
        state = "read" if origin.lineage else "without_lineage"
        assert row["lineage"] == ("refused" if forged else state)
        if forged:
            assert row["parents"] == row["ranges"] == []
            continue
        listed = (*expected.parents, *expected.rest)[:MAX_INDEXED_PARENTS]
        within = expected.ranges[:MAX_INDEXED_PARENTS]
        parents = tuple(Address(*parent) for parent in row["parents"])
        assert parents == tuple(dict.fromkeys(listed))
        assert [AddressRange(*each) for each in row["ranges"]] == list(dict.fromkeys(within))
        beyond = max(len(expected.parents) - MAX_INDEXED_PARENTS, 0)
        beyond += len(expected.ranges) - len(within) + expected.more_parents
        assert row["unlisted"] == (0 if expected.rest else expected.unlisted) + beyond
        assert row["run_id"] == expected.run_id


def test_an_invalid_or_too_long_stamp_is_ignored(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("out", 0, 0, HEADERS[-1])], KAFKA)
    (row,) = parse_lineage(frame).collect()
    assert (row["job_name"], row["job_version"], row["batch_version"]) == (
        "\ufffd name",
        None,
        None,
    )


def test_edges_are_joined_into_ranges_that_contain_each_of_them_once(spark: SparkSession) -> None:
    chance = random.Random(9)  # noqa: S311
    edges: set[tuple[Address, Address]] = set()
    for _ in range(60):
        parent = Address(chance.choice("ab"), chance.randrange(2), chance.randrange(100))
        child = Address(chance.choice("cd"), chance.randrange(2), chance.randrange(100))
        for step in range(chance.choice((1, 1, 2, 40))):
            above = Address(parent.topic, parent.partition, parent.offset + step)
            edges.add((above, Address(child.topic, child.partition, child.offset + step)))
    rows = joined(spark, edges)
    assert sorted(singles(rows)) == sorted(edges)
    assert len(rows) == number_of_ranges(edges)
    # Joining again, like compaction does, and duplicate edges change nothing.
    halves = [row for part in (1, 0) for row in joined(spark, sorted(edges)[part::2])]
    twice = [row.asDict() for row in halves + rows]
    again = join_edges(spark.createDataFrame(twice, EDGES)).collect()
    assert sorted(map(tuple, again)) == sorted(map(tuple, rows))


def test_a_copy_is_one_edge_row_and_its_batch_one_made_row(spark: SparkSession) -> None:
    records = [("out", 0, n, stamped(f"in/0@{n + 3}")) for n in range(1000)]
    parsed = parse_lineage(spark.createDataFrame(records, KAFKA))
    (edge,) = edges_of(parsed).collect()
    assert (edge["parent_first"], edge["parent_last"], edge["first"]) == (3, 1002, 0)
    (made,) = made_of(parsed).collect()
    assert (made["first"], made["last"], made["job_name"]) == (0, 999, "job")
    assert (made["job_version"], made["batch_version"], made["run_id"]) == ("v1.0.0", 4, RUN)


def joined(spark: SparkSession, edges: Iterable[tuple[Address, Address]]) -> list[Row]:
    rows = [
        (p.topic, p.partition, p.offset, p.offset, c.topic, c.partition, c.offset) for p, c in edges
    ]
    return join_edges(spark.createDataFrame(rows, EDGES)).collect()


def singles(rows: list[Row]) -> list[tuple[Address, Address]]:
    return [
        (
            Address(row["parent_topic"], row["parent_partition"], row["parent_first"] + step),
            Address(row["topic"], row["partition"], row["first"] + step),
        )
        for row in rows
        for step in range(row["parent_last"] - row["parent_first"] + 1)
    ]


def number_of_ranges(edges: set[tuple[Address, Address]]) -> int:
    """The number of edges that do not continue another one."""

    def before(address: Address) -> Address:
        return Address(address.topic, address.partition, address.offset - 1)

    return sum((before(parent), before(child)) not in edges for parent, child in edges)


def test_outputs_of_one_range_are_one_row(spark: SparkSession) -> None:
    headers = lineage(f"2 {RUN} ~in/0@3..17,~ads/1@0..4")
    rows = [("out", 0, offset, headers) for offset in (5, 6, 7, 9)]
    found = within_of(parse_lineage(spark.createDataFrame(rows, KAFKA))).collect()
    ranges = {("in", 0, 3, 17), ("ads", 1, 0, 4)}
    children = {("out", 0, 5, 7), ("out", 0, 9, 9)}
    assert {tuple(row) for row in found} == {
        above + below for above in ranges for below in children
    }
