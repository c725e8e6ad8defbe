"""The latency of `trace` and `impact` in a warm process.

A chain of four topics: each record is made from one of the topic before, in shuffled order, so
that no edges can be merged into ranges and every edge is a row of the index. The first records of
each topic are in Kafka; the rest of the ten million edges are only in the index, as after
retention.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.kafka import RecordProducer, RecordReader, create_topic, delete_topics
from headwater.model import Address, Lineage
from headwater.model.header import STAMP_HEADERS, JobStamp, encode
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.session import create_session
from headwater.spark.writers.index_ranges import as_rows
from headwater.spark.writers.index_table import IndexTable, Scanned, make_table
from headwater.storage.index.contract import EDGE, MADE, SCAN
from headwater.storage.index.reader import LineageIndex
from headwater.tracing import impact, trace

_TOPICS = ("bench-trace-a", "bench-trace-b", "bench-trace-c", "bench-trace-d")
_PARTITIONS = 2
_QUERIES = 400
_WARM_UP = 50
_RUN = "6b1f0c1e-0000-4000-8000-000000000000"

# Offsets are shuffled within blocks; a commit is a million edges: 3 hops, 2 partitions.
_BLOCK = 10_000
# Position of a parent within its block -> position of its child, and back.
_RANDOM = random.Random(11)  # noqa: S311 - an order, not a secret
_ORDER = _RANDOM.sample(range(_BLOCK), _BLOCK)
_BACK = sorted(range(_BLOCK), key=_ORDER.__getitem__)
_BLOCKS_PER_COMMIT = 17
_PER_COMMIT = _BLOCKS_PER_COMMIT * _BLOCK
_COMMITS = 10
# Records of each partition that are in Kafka.
_IN_KAFKA = 4 * _BLOCK


def measure(settings: Settings) -> BenchResult:
    """95th percentiles in milliseconds, each of several hundred queries."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("trace", _QUERIES)
    with _topics(settings), tempfile.TemporaryDirectory() as folder:
        _fill(settings)
        with RecordReader(settings.kafka) as reader:
            ends = _sample(_TOPICS[-1], _IN_KAFKA)
            times = _time(lambda address: trace(address, settings, reader=reader), ends)
            result.measurements += _percentiles("trace, three hops", times, 20)
            _measure_impact(result, Path(folder), settings, reader)
    result.machine = machine_now(load)
    return result


def _measure_impact(
    result: BenchResult, folder: Path, settings: Settings, reader: RecordReader
) -> None:
    spark = create_session("bench_trace", settings, connectors=("kafka", "delta"))
    _write_index(spark, folder / "1-million", 1)
    began = time.monotonic()
    _write_index(spark, folder / "10-million", _COMMITS)
    seconds = time.monotonic() - began
    indexes = {
        "impact, 1 million edges": LineageIndex(folder / "1-million"),
        "impact, 10 million edges": LineageIndex(folder / "10-million"),
    }

    def query(index: LineageIndex) -> Callable[[Address], object]:
        return lambda root: impact(root, settings, index=index, reader=reader)

    in_kafka = _sample(_TOPICS[0], _IN_KAFKA)
    # Alternating, so that noise affects both equally.
    small, large = _time_alternately([query(index) for index in indexes.values()], in_kafka)
    for what, times in zip(indexes, (small, large), strict=True):
        result.measurements += _percentiles(what, times, 50)
    anywhere = _sample(_TOPICS[0], _COMMITS * _PER_COMMIT)
    times = _time(query(LineageIndex(folder / "10-million")), anywhere)
    result.measurements += _percentiles("impact, 10 million edges, any record", times, 50)
    edges = LineageIndex(folder / "10-million").edge_rows()
    size = sum(file.stat().st_size for file in (folder / "10-million").rglob("*.parquet"))
    growth = _p95(large) / _p95(small)
    result.measurements += [
        Measurement("impact, 10 million / 1 million edges", round(growth, 2), "", at_most=1.5),
        Measurement("edge rows", edges, ""),
        Measurement("bytes per edge", round(size / edges, 2), "bytes"),
        Measurement("writing the index", round(edges / seconds), "edges/s"),
    ]


def _write_index(spark: SparkSession, path: Path, commits: int) -> None:
    make_table(spark, path)
    table = IndexTable(spark, path)
    for commit in range(commits):
        _append(spark, table, commit)


def _time(query: Callable[[Address], object], addresses: Sequence[Address]) -> list[float]:
    return _time_alternately([query], addresses)[0]


def _time_alternately(
    queries: Sequence[Callable[[Address], object]], addresses: Sequence[Address]
) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in queries]
    for address in addresses:
        for query, each in zip(queries, times, strict=True):
            began = time.perf_counter()
            query(address)
            each.append((time.perf_counter() - began) * 1000)
    return [each[_WARM_UP:] for each in times]


def _percentiles(what: str, times: Sequence[float], target: float) -> list[Measurement]:
    return [
        Measurement(f"{what}: p95", round(_p95(times), 2), "ms", at_most=target),
        Measurement(f"{what}: median", round(statistics.median(times), 2), "ms"),
    ]


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def _sample(topic: str, offsets: int) -> list[Address]:
    return [
        Address(topic, _RANDOM.randrange(_PARTITIONS), _RANDOM.randrange(offsets))
        for _ in range(_QUERIES + _WARM_UP)
    ]


def _parent_of(topic: str, partition: int, offset: int) -> Address:
    """The parent of a record: the inverse of `_edges`."""
    block, position = divmod(offset, _BLOCK)
    parent = block * _BLOCK + _BACK[position]
    before = _TOPICS[_TOPICS.index(topic) - 1]
    return Address(before, (partition + parent) % _PARTITIONS, parent)


def _edges(spark: SparkSession, commit: int) -> DataFrame:
    """The edges of a commit: offset x leads to another offset of its block in either partition."""
    x, parent_partition, hop = F.col("x"), F.col("parent_partition"), F.col("hop")
    base = commit * _PER_COMMIT
    rows = (
        spark.range(base, base + _PER_COMMIT)
        .withColumnRenamed("id", "x")
        .crossJoin(spark.range(_PARTITIONS).withColumnRenamed("id", "parent_partition"))
        .crossJoin(spark.range(len(_TOPICS) - 1).withColumnRenamed("id", "hop"))
    )
    order = spark.createDataFrame(list(enumerate(_ORDER)), "position bigint, child bigint")
    rows = rows.join(F.broadcast(order), x % _BLOCK == F.col("position"))
    return rows.select(
        _topic_name(hop).alias("parent_topic"),
        "parent_partition",
        x.alias("parent_first"),
        x.alias("parent_last"),
        _topic_name(hop + 1).alias("topic"),
        ((parent_partition + x) % _PARTITIONS).alias("partition"),
        (x - F.col("position") + F.col("child")).alias("first"),
    )


def _topic_name(number: Column) -> Column:
    return F.element_at(F.array(*map(F.lit, _TOPICS)), number.cast("int") + 1)


def _append(spark: SparkSession, table: IndexTable, commit: int) -> None:
    """Append the rows that lineage_index_job writes for a million edges."""
    first, last = commit * _PER_COMMIT, (commit + 1) * _PER_COMMIT - 1
    ranges = [Scanned(t, p, first, last) for t in _TOPICS for p in range(_PARTITIONS)]
    read = spark.createDataFrame(
        [(s.topic, s.partition, s.first, s.last) for s in ranges],
        "topic string, partition int, first bigint, last bigint",
    )
    stamp = {"job_name": "bench", "job_version": "v1", "run_id": _RUN}
    made = read.where(F.col("topic") != _TOPICS[0])
    for name, text in stamp.items():
        made = made.withColumn(name, F.lit(text))
    rows = [
        as_rows(EDGE, 0, _edges(spark, commit)),
        as_rows(MADE, 0, made.withColumn("batch_version", F.lit(commit))),
        as_rows(SCAN, 0, read.withColumn("records", F.lit(_PER_COMMIT))),
    ]
    table.append(rows, _PER_COMMIT * _PARTITIONS * (len(_TOPICS) - 1), ranges)


def _fill(settings: Settings) -> None:
    stamp = JobStamp("bench", "v1", 0).headers(STAMP_HEADERS)
    with RecordProducer(settings.kafka) as producer:
        for topic in _TOPICS:
            for offset in range(_IN_KAFKA):
                for partition in range(_PARTITIONS):
                    headers = []
                    if topic != _TOPICS[0]:
                        parent = _parent_of(topic, partition, offset)
                        headers = [*stamp, ("lineage", encode(Lineage(_RUN, (parent,))))]
                    producer.send(topic, b"{}", headers=headers, partition=partition)


@contextmanager
def _topics(settings: Settings) -> Iterator[None]:
    for topic in _TOPICS:
        create_topic(topic, _PARTITIONS, settings.kafka)
    try:
        yield
    finally:
        delete_topics(_TOPICS, settings.kafka)
