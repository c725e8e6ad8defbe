"""The index of a real chain of topics, and the results of `impact`."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.lineage_events import columns, names, spooled
from tests.lines.environments import needs_delta
from tests.stamped import RUN, delete_before, stamped, write
from tests.support import Headwater

from headwater.errors import CheckpointError, InputError, LineageIndexError
from headwater.jobs.lineage_index_job import main
from headwater.kafka import RecordReader, create_topic, delete_topics, read_topic, write_run
from headwater.model import Address, Header
from headwater.model.header import origin_of
from headwater.model.run_record import RunRecord
from headwater.settings import Settings
from headwater.storage.index.contract import index_path
from headwater.storage.index.reader import LineageIndex
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import ImpactNode, JobOutput, RecordState, impact

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_delta]


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    index = broker.index.model_copy(update={"table": tmp_path / "index"})
    return broker.model_copy(update={"index": index})


def run_job(settings: Settings, topics: list[str], tmp_path: Path, *more: str) -> None:
    options = ["--available-now", "--quiet", "--checkpoint", str(tmp_path / "checkpoint")]
    arguments = ["--topics", ",".join(topics), *options, *more]
    main.main(arguments, standalone_mode=False, obj=settings)


def edges_in(topics: list[str], settings: Settings) -> dict[Address, set[Address]]:
    """Children by parent, from the headers of all records."""
    edges: dict[Address, set[Address]] = defaultdict(set)
    for topic in topics:
        for record in read_topic(topic, settings.kafka):
            found = origin_of(record).lineage
            for parent in found.parents if found else ():
                own = (parent.topic, parent.partition) == (topic, record.address.partition)
                if not (own and parent.offset >= record.address.offset):
                    edges[parent].add(record.address)
    return edges


def below(root: Address, edges: dict[Address, set[Address]]) -> set[Address]:
    found, waiting = {root}, [root]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found - {root}


def shown(nodes: tuple[ImpactNode, ...]) -> set[Address]:
    found: set[Address] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.address not in found:
            found.add(node.address)
            waiting += node.children
    return found


def made_by(job: str, version: str, batch: int, *parents: str) -> list[Header]:
    (_, _, _, lineage) = stamped(*parents)
    stamp = (("job_name", job), ("job_version", version), ("batch_version", str(batch)))
    return [*((name, text.encode()) for name, text in stamp), lineage]


@pytest.fixture
def chain(settings: Settings, make_topic: TopicMaker) -> list[str]:
    """40 records, copied, then filtered and joined, with some that are forged."""
    source, copied, joined = (make_topic(name) for name in ("in", "copied", "joined"))
    write(source, [[]] * 40, settings)
    write(copied, [made_by("copy", "v1", n // 10, f"{source}/0@{n}") for n in range(20)], settings)
    write(copied, [made_by("copy", "v2", 2, f"{source}/0@{n}") for n in range(20, 40)], settings)
    joins = [
        made_by("join", "v1", 0, f"{copied}/0@{n}", f"{source}/0@{39 - n}") for n in range(0, 40, 3)
    ]
    write(joined, joins, settings, partition=1)
    forged: list[list[Header]] = [
        [("lineage", b"1 - nonsense")],
        stamped(f"{joined}/0@99"),
        stamped(f"{source}/0@5", unlisted=936),
        stamped(f"{source}/7@5", "no-such-topic/0@1"),
    ]
    write(joined, forged, settings, partition=0)
    return [source, copied, joined]


@pytest.mark.lines
def test_impact_returns_exactly_the_records_whose_headers_lead_back(
    spark: SparkSession, settings: Settings, chain: list[str], tmp_path: Path
) -> None:
    spool = settings.lineage.model_copy(update={"spool": tmp_path / "spool"})
    run_job(settings := settings.model_copy(update={"lineage": spool}), chain, tmp_path)
    source, copied, joined = chain
    # The START event has the inputs of the index.
    start = spooled(settings, "lineage_index")[0]
    assert (start["eventType"], names(start, "inputs")) == ("START", chain)
    assert {f"{topic}:headers" for topic in chain} <= columns(start)["parent_topic"].keys()
    assert start["job"]["facets"]["documentation"]["description"].startswith("Edges between")
    edges = edges_in(chain, settings)
    index = LineageIndex(index_path(settings))
    with RecordReader(settings.kafka) as reader:
        for offset in range(40):
            root = Address(source, 0, offset)
            found = impact(root, settings, index=index, reader=reader)
            assert shown(found.children) == below(root, edges)
            assert found.counts == Counter(address.topic for address in below(root, edges))
    # The file has the format of the contract, and the session is restored.
    (file,) = index_path(settings).glob("kind=edge/*/*.parquet")
    assert parquet.read_metadata(file).row_group(0).column(0).compression == "ZSTD"
    assert spark.conf.get("spark.sql.parquet.compression.codec") == "snappy"
    # The copies were joined into one row.
    assert index.edge_rows() < len(edges) + 20
    # Forged headers are not indexed, but counted.
    scanned = index.coverage()[joined, 0]
    assert (scanned.unreadable, scanned.refused, scanned.unlisted) == (1, 1, 936)
    assert found.unlisted == {joined: 936}
    assert found.lower_bound
    assert found.indexed == {source: {0: 40}, copied: {0: 40}, joined: {0: 4, 1: 14}}


def test_impact_of_a_job_is_its_output_and_what_was_derived_from_it(
    spark: SparkSession, settings: Settings, chain: list[str], tmp_path: Path
) -> None:
    run_job(settings, chain, tmp_path)
    copied = chain[1]
    edges = edges_in(chain, settings)

    def expected(offsets: range) -> dict[str, int]:
        made = {Address(copied, 0, offset) for offset in offsets}
        affected = made.union(*(below(address, edges) for address in made))
        return Counter(address.topic for address in affected)

    everything = impact(JobOutput("copy"), settings)
    assert everything.counts == expected(range(40))
    assert everything.made == {copied: 40}
    first = impact(JobOutput("copy", "v1"), settings, max_records=5)
    assert first.counts == expected(range(20))
    assert len(first.children) == 5
    assert first.truncated
    assert impact(JobOutput("copy", batches=(1, 1)), settings).counts == expected(range(10, 20))
    assert impact(JobOutput("copy", batches=(1, 2)), settings).counts == expected(range(10, 40))
    with pytest.raises(InputError, match="'copy' in version 'v2' in batches 0"):
        impact(JobOutput("copy", "v2", (0, 1)), settings)


def test_a_later_run_adds_new_records_and_a_lost_checkpoint_adds_no_duplicates(
    spark: SparkSession,
    settings: Settings,
    chain: list[str],
    tmp_path: Path,
) -> None:
    source, copied, joined = chain
    # Small batches, so that the table is compacted.
    compacted = ("--compact-at-commits", "2")
    run_job(settings, chain, tmp_path, "--max-records-per-batch", "60", *compacted)
    write(joined, [made_by("join", "v1", 1, f"{copied}/0@1", f"{source}/0@1")], settings)
    run_job(settings, chain, tmp_path, *compacted)
    shutil.rmtree(tmp_path / "checkpoint")
    write(joined, [made_by("join", "v1", 2, f"{copied}/0@2")], settings)
    run_job(settings, chain, tmp_path, *compacted)

    edges = edges_in(chain, settings)
    rows = spark.read.format("delta").load(str(index_path(settings)))
    levels = {row["level"] for row in rows.select("level").distinct().collect()}
    assert max(levels) >= 1
    singles = rows.where("kind = 'edge'").selectExpr("sum(parent_last - parent_first + 1) n")
    assert singles.collect()[0]["n"] == sum(map(len, edges.values()))
    records = rows.where("kind = 'scan'").selectExpr("sum(records) n").collect()[0]["n"]
    assert records == 40 + 40 + 14 + 4 + 2
    for offset in range(4):
        root = Address(source, 0, offset)
        assert shown(impact(root, settings).children) == below(root, edges)


def test_expired_and_replaced_records_have_their_state(
    spark: SparkSession, settings: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, gone, recreated = (make_topic(name) for name in ("in", "gone", "recreated"))
    write(source, [[]] * 2, settings)
    write(gone, [made_by("copy", "v3", 7, f"{source}/0@1")], settings)
    write(recreated, [stamped(f"{gone}/0@0")], settings)
    # A cycle can only be forged.
    write(source, [stamped(f"{recreated}/0@1")], settings)
    write(recreated, [stamped(f"{source}/0@2")], settings)
    run_job(settings, [source, gone, recreated], tmp_path)
    delete_before(gone, 1, settings)
    delete_topics([recreated], settings.kafka)
    create_topic(recreated, 2, settings.kafka)
    write(recreated, [[]] * 2, settings)

    root = impact(Address(source, 0, 1), settings)
    (child,) = root.children
    assert (child.state, child.record.job_version) == (RecordState.EXPIRED, "v3")
    assert child.record.batch_version == 7
    assert child.children[0].state is RecordState.UNVERIFIED
    assert "no longer names" in (child.children[0].record.reason or "")
    circle = impact(Address(source, 0, 2), settings)
    assert circle.counts == {recreated: 1}
    (twice,) = circle.children[0].children
    assert (twice.address, twice.state) == (Address(source, 0, 2), RecordState.UNVERIFIED)
    assert twice.record.reason == "a cycle: the record is its own ancestor"


def test_an_index_and_a_checkpoint_that_do_not_belong_together_are_refused(
    spark: SparkSession, settings: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic()
    write(topic, [[]] * 3, settings)
    run_job(settings, [topic], tmp_path)
    shutil.rmtree(index_path(settings))
    with pytest.raises(CheckpointError, match="is empty") as caught:
        run_job(settings, [topic], tmp_path)
    assert "remove the checkpoint" in (caught.value.hint or "")
    shutil.rmtree(tmp_path / "checkpoint")
    run_job(settings, [topic], tmp_path)
    delete_topics([topic], settings.kafka)
    create_topic(topic, 2, settings.kafka)
    # Shorter and longer than before.
    for _ in range(2):
        with pytest.raises(LineageIndexError, match=r"with the id .*: it was recreated"):
            run_job(settings, [topic], tmp_path)
        write(topic, [[]] * 4, settings)
    with pytest.raises(InputError, match="--accept recreated-input: an index has"):
        run_job(settings, [topic], tmp_path, "--accept", "recreated-input")
    other = tmp_path / "other"
    spark.range(3).write.format("delta").save(str(other))
    elsewhere = settings.model_copy(
        update={"index": settings.index.model_copy(update={"table": other})}
    )
    with pytest.raises(LineageIndexError, match="is not a lineage index of format 1"):
        run_job(elsewhere, [topic], tmp_path)


def test_the_command_prints_a_tree_counts_and_the_lag_of_the_index(
    spark: SparkSession,
    settings: Settings,
    chain: list[str],
    headwater: Headwater,
    tmp_path: Path,
) -> None:
    source, copied, joined = chain
    table = {"HEADWATER_INDEX__TABLE": str(index_path(settings))}
    before = headwater("impact", f"{source}/0@3", **table)
    assert before.returncode == 2
    assert "hint: `headwater run lineage_index_job` creates it" in before.stderr
    run_job(settings, chain, tmp_path)
    write(copied, [[]] * 2, settings)
    text = headwater("impact", f"{source}/0@3", **table)
    assert text.returncode == 0, text.stderr
    lines = text.stdout.splitlines()
    assert lines[0] == f"{source}/0@3  found  source record"
    assert lines[1].startswith(f"├── {copied}/0@3  found  copy v1, batch 0")
    assert f"indexed up to {copied}/0@40, lag 2" in lines
    assert f"936 edges to {joined} are not listed in headers, and not followed" in lines
    content = json.loads(headwater("impact", f"{source}/0@3", "--json", **table).stdout)
    assert [child["topic"] for child in content["children"]] == [copied, joined]
    assert content["counts"] == {copied: 1, joined: 2}
    assert content["behind"] == {copied: {"0": 2}}
    arguments = ("--job", "copy", "--batches", "2..9", "--json", "--max-records", "1")
    of_job = json.loads(headwater("impact", *arguments, **table).stdout)
    assert (of_job["made"], len(of_job["children"]), of_job["truncated"]) == ({copied: 20}, 1, True)
    for wrong in (
        (),
        (f"{source}/0@3", "--job", "copy"),
        (f"{source}/0@3", "--batches", "1..2"),
        ("--job", "copy", "--batches", "2..1"),
        ("--job", "no-such-job"),
        (f"{source}/0@99999",),
    ):
        assert headwater("impact", *wrong, **table).returncode == 2, wrong


def test_ranges_are_indexed_once_and_survive_compaction(
    settings: Settings, make_topic: TopicMaker, tmp_path: Path, spark: SparkSession
) -> None:
    source, mapped = make_topic("in", partitions=1), make_topic("mapped", partitions=1)
    write(source, [[]] * 40, settings)
    write_run(RUN, RunRecord("compact job", "v1"), settings.kafka, create=True)
    for ranges in ([f"~{source}/0@0..9"], [f"~{source}/0@10..19", f"~{source}/0@20..29"]):
        outputs = [stamped(each) for each in ranges for _ in range(5)]
        write(mapped, [*outputs, stamped(f"{source}/0@39")], settings)
        if len(ranges) == 1:
            value = f"2 {RUN} {source}/0@38 b9".encode()
            write(mapped, [[("lineage", value)]], settings)
        if len(ranges) == 2:
            write(mapped, [stamped(f"{source}/0@30", "?")], settings)
        run_job(settings, [source, mapped], tmp_path, "--compact-at-commits", "2")
    found = impact(Address(source, 0, 15), settings)
    assert (found.counts, found.within_counts) == ({}, {mapped: 5})
    assert [child.address.offset for child in found.children] == [7, 8, 9, 10, 11]
    assert {(child.state, child.within) for child in found.children} == {(RecordState.FOUND, True)}
    # The `?` of one record: there may be more.
    assert (found.lower_bound, found.unlisted) == (True, {mapped: 1})
    exact = impact(Address(source, 0, 39), settings)
    assert (exact.counts, exact.within_counts) == ({mapped: 2}, {})
    # A record with a compact stamp is output of the job of its run.
    (made,) = LineageIndex.open(settings).made_by("compact job", None, (9, 9))
    assert (made.partition, made.first, made.last) == ((mapped, 0), 6, 6)
