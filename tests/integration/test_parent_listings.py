"""Records that list the other parents of an aggregate: as items of consecutive offsets, and as
single addresses, which earlier versions wrote. All queries answer the same for both."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from tests.stamped import write

from headwater import LineageJob, merge_lineage
from headwater.jobs.lineage_index_job import main
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.model import Address, Record
from headwater.model.header import LINEAGE, encode, origin_of
from headwater.replay.ancestry import inputs_of
from headwater.settings import Settings
from headwater.tracing import ImpactNode, impact, trace, verify, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARENTS = 5_000
HOUR_MS = 3_600_000


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    index = broker.index.model_copy(update={"table": tmp_path / "index"})
    return broker.model_copy(update={"index": index})


def count_in_a_window(source: str, target: str, settings: Settings, checkpoint: Path) -> Record:
    # The start of a past hour; the broker would soon delete much older records.
    old = (time.time_ns() // 1_000_000 // HOUR_MS - 2) * HOUR_MS
    with RecordProducer(settings.kafka) as producer:
        for number in range(PARENTS):
            producer.send(source, b"x", b"k", partition=0, timestamp_ms=old + number)
        # A later record advances the watermark past the window.
        later = old + HOUR_MS + 120_000
        producer.send(source, b"x", b"later", partition=0, timestamp_ms=later)
    job = LineageJob("counted", settings=settings, checkpoint=checkpoint)
    rows = job.read(source).withWatermark("timestamp", "1 minute")
    counted = rows.groupBy(F.window("timestamp", "1 hour"), "key").agg(
        F.count("*").cast("string").alias("value"),
        merge_lineage(F.col("lineage")).alias("lineage"),
    )
    job.write(counted, target, trigger={"availableNow": True})
    (record,) = read_topic(target, settings.kafka)
    return record


def with_single_addresses(record: Record, output: str, settings: Settings) -> None:
    """The record as an earlier version wrote it, with its listings."""
    lineage = origin_of(record).lineage
    assert lineage is not None
    others = sorted({f"{lineage.parents[0].topic}/0@{n}" for n in range(PARENTS)})[64:]
    stamp = [header for header in record.headers if header[0] != LINEAGE]
    run = f"1 {lineage.run_id}"
    texts = [
        f"{run} {','.join(others[begin : begin + 1000])}" + (f" #{number}" if number else "")
        for number, begin in enumerate(range(0, len(others), 1000))
    ]
    listings = [[*stamp, (LINEAGE, text.encode())] for text in texts]
    write(f"{output}-parents", listings, settings, key=(lineage.record_id or "").encode())
    rest = ",".join(f"{output}-parents/0@{number}" for number in range(len(texts)))
    own = encode(lineage).decode().partition(" >")[0] + f" >{rest}"
    write(output, [[*stamp, (LINEAGE, own.encode())]], settings, key=record.key)


def answers(source: str, output: str, settings: Settings) -> dict[str, object]:
    """What all queries have to answer, without the name of the topic."""
    record = Address(output, 0, 0)
    node = trace(record, settings)
    proof = verify(output, source, settings)
    last = Address(source, 0, PARENTS - 1)
    verdict = why_missing(last, output, settings).verdict
    reached = impact(last, settings)
    return {
        "parents": {parent.address for parent in node.parents},
        "unlisted": (node.unlisted, node.truncated),
        "verify": (proof.found, proof.missing, proof.unlisted_parents),
        "why-missing": (verdict.fate, verdict.evidence == (record,)),
        "impact": (record in {each.address for each in nodes(reached.children)}, reached.unlisted),
        "replay": {p: each.ranges() for p, each in inputs_of([record], source, settings).items()},
    }


def nodes(children: Iterable[ImpactNode]) -> Iterator[ImpactNode]:
    for each in children:
        yield each
        yield from nodes(each.children)


def listed(output: str, settings: Settings) -> list[bytes]:
    return [each.header(LINEAGE) or b"" for each in read_topic(f"{output}-parents", settings.kafka)]


def test_queries_answer_the_same_for_consecutive_offsets_and_for_single_addresses(
    spark: object, settings: Settings, tmp_path: Path
) -> None:
    # Short names: a thousand addresses of longer ones do not fit into a header.
    source, target, earlier = "listings.in", "listings.out", "listings.earlier"
    topics = [target, f"{target}-parents", earlier, f"{earlier}-parents"]
    for topic in (source, *topics):
        create_topic(topic, 1, settings.kafka)
    record = count_in_a_window(source, target, settings, tmp_path / "checkpoint")
    with_single_addresses(record, earlier, settings)
    options = ["--available-now", "--quiet", "--checkpoint", str(tmp_path / "index-checkpoint")]
    main.main(["--topics", ",".join(topics), *options], standalone_mode=False, obj=settings)

    new, old = listed(target, settings), listed(earlier, settings)
    assert ({header[:2] for header in new}, {header[:2] for header in old}) == ({b"3 "}, {b"1 "})
    # 4,936 parents, of which a record lists at most a thousand.
    assert len(new) == len(old) == 5
    assert sum(map(len, new)) * 100 < sum(map(len, old))

    found = answers(source, target, settings)
    assert found == answers(source, earlier, settings)
    assert found["parents"] == {Address(source, 0, offset) for offset in range(PARENTS)}
    assert (found["unlisted"], found["verify"]) == ((0, False), (PARENTS, 1, 0))
    assert found["impact"] == (True, {})
    assert found["replay"] == {0: [(0, PARENTS - 1)]}
