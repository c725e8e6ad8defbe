"""The cost of `merge_lineage`: a windowed count with and without the parents of its groups.

Also compared with a set of texts, which the state consisted of in earlier versions.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headwater.bench.copying import Timing, cpu_seconds, new_topic
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.job import LineageJob
from headwater.kafka import RecordProducer
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.source import (
    LINEAGE_COLUMN,
    lineage_of,
    merge_lineage,
    parent_addresses,
    read_stream,
    with_lineage,
)

_RECORDS = 400_000
_PARTITIONS = 2
_KEYS = 50
_REPEATS = 5
_BATCHES = 4
_SOURCE = "bench-parents-source"
_MINUTE_MS = 60_000
_WINDOW_MINUTES = 10

_UNTOUCHED = "count"
_TEXTS = "count and parents as texts"
_OURS = "count and merge_lineage"

# The aggregate next to the count, if there is one.
Merge = Callable[[Column], Column] | None


@dataclass
class _Round:
    """Of one contender: times of each round, and the greatest size of the state."""

    timing: Timing = field(default_factory=Timing)
    state_bytes: int = 0


def measure(settings: Settings) -> BenchResult:
    """Ratios of records per second; with CPU seconds of driver and JVM, and the state's size."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    contenders: dict[str, Merge] = {
        _UNTOUCHED: None,
        _TEXTS: _merge_texts,
        _OURS: merge_lineage,
    }
    rounds = {name: _Round() for name in contenders}
    with new_topic(_SOURCE, _PARTITIONS, settings):
        _fill(settings)
        spark = LineageJob("bench_parents", settings=settings).spark
        # With Spark's 200, the tasks of the groups take longer than the groups.
        spark.conf.set("spark.sql.shuffle.partitions", _PARTITIONS)
        for number in range(_REPEATS + 1):
            for name, merge in contenders.items():
                # The first round warms up the JVM.
                _run(spark, settings, merge, rounds[name] if number else _Round())
    result = BenchResult("parents", _REPEATS)
    rates = {name: each.timing.rate for name, each in rounds.items()}
    for name in (_OURS, _TEXTS):
        ratio = round(rates[name] / rates[_UNTOUCHED], 3)
        target = 0.85 if name == _OURS else None
        result.measurements.append(Measurement(f"{name} / {_UNTOUCHED}", ratio, "", target))
    for name, each in rounds.items():
        result.measurements += each.timing.measurements(name, _RECORDS)
        size = round(each.state_bytes / 1e6, 2)
        result.measurements.append(Measurement(f"{name}: state", size, "MB"))
    result.machine = machine_now(load)
    return result


def _merge_texts(lineage: Column) -> Column:
    texts = F.collect_set(F.array_join(parent_addresses(lineage), ","))
    return lineage_of(F.flatten(F.transform(texts, lambda text: F.split(text, ","))))


def _run(spark: SparkSession, settings: Settings, merge: Merge, into: _Round) -> None:
    options = {"maxOffsetsPerTrigger": _RECORDS // _BATCHES}
    records = read_stream(spark, [_SOURCE], settings, options=options)
    rows = with_lineage(records).withWatermark("timestamp", "1 minute")
    merged = [] if merge is None else [merge(F.col(LINEAGE_COLUMN)).alias(LINEAGE_COLUMN)]
    window = F.window("timestamp", f"{_WINDOW_MINUTES} minutes")
    counts = rows.groupBy(window, "key").agg(F.count("*").alias("count"), *merged)
    with tempfile.TemporaryDirectory() as folder:
        cpu, began = cpu_seconds(), time.monotonic()
        query = (
            counts.writeStream.format("noop")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        into.timing.rates.append(_RECORDS / (time.monotonic() - began))
        into.timing.cpu.append(cpu_seconds() - cpu)
    sizes = [
        operator["memoryUsedBytes"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    ]
    into.state_bytes = max(sizes)


def _fill(settings: Settings) -> None:
    """Write records of one window, and a later one to each partition, which closes it."""
    window = _WINDOW_MINUTES * _MINUTE_MS
    # In the past: the broker refuses records that are much later than its clock.
    begin = (time.time_ns() // 1_000_000 // window - 10) * window
    with RecordProducer(settings.kafka) as producer:
        for number in range(_RECORDS):
            at = begin + number * window // _RECORDS
            key = str(number * 7919 % _KEYS).encode()
            producer.send(_SOURCE, b"v" * 200, key, partition=number % 2, timestamp_ms=at)
        for partition in range(_PARTITIONS):
            later = begin + 2 * window
            producer.send(_SOURCE, b"v", b"later", partition=partition, timestamp_ms=later)
