"""The cost of row lineage for plain jobs: each job runs with and without it, alternately.

With the job's own settings, and with the same settings of the producer for both: Headwater's sink
comes with better ones than Kafka's defaults, which would hide the cost of lineage.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.bench.copying import Copy, new_topic, time_copies
from headwater.bench.disk import bytes_of_records, bytes_on_disk
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.bench.rewrite import measure_rewrite
from headwater.delivery.modes import PRODUCER, Idempotent
from headwater.kafka import RecordProducer, delete_topics
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.configuration import ROW_LINEAGE, configured
from headwater.spark.session import create_session

_PARTITIONS = 2
_REPEATS = 5
_RECORDS = 400_000
_RECORD_BYTES = 400
_SOURCE, _OTHER = "bench-unchanged-source", "bench-unchanged-other"
_TARGET = "bench-unchanged-target"
# Of the event times, in seconds.
_START = 1_700_000_000
_ENABLED = "spark.headwater.lineage.enabled"
_STAMP = "spark.headwater.lineage.stamp"

_OFF = "off"
_COMPACT = "compact"
_FULL = "full"

# Builds the rows of a plain job of two sources.
Job = Callable[[DataFrame, DataFrame], DataFrame]


@dataclass(frozen=True)
class _Case:
    """A job, and the least ratios to the job without lineage by stamp.

    Attributes:
        tuned: with the producer settings of Headwater's sink for all.
        topics: from which the job reads, each with the same share of the records.
        written: how many records it writes at least. Default: one for each of the first topic.
    """

    name: str
    job: Job
    targets: Mapping[str, float]
    tuned: bool = True
    output_mode: str = "append"
    topics: tuple[str, ...] = (_SOURCE,)
    written: int | None = None


def _copy(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.where("length(value) > 10").select("key", "value")


def _parsed(left: DataFrame) -> DataFrame:
    schema = "n bigint, k int, t bigint, text string"
    return left.select("key", F.from_json(F.col("value").cast("string"), schema).alias("r"))


def _rewrite(left: DataFrame, right: DataFrame) -> DataFrame:
    fields = _parsed(left).where("r.n >= 0").select("key", "r.*")
    changed = fields.withColumn("k", F.col("k") + 1)
    return changed.select("key", F.to_json(F.struct("n", "k", "t", "text")).alias("value"))


def _timed(rows: DataFrame, name: str) -> DataFrame:
    times = F.timestamp_seconds("r.t").alias("t")
    return _parsed(rows).select(F.col("r.n").alias(name), times).withWatermark("t", "1 hour")


def _join(left: DataFrame, right: DataFrame) -> DataFrame:
    both = _timed(left, "n").join(_timed(right, "m").withColumnRenamed("t", "u"), F.expr("n = m"))
    return both.where("t = u").select(F.concat_ws(",", "n", "m").alias("value"))


def _count(left: DataFrame, right: DataFrame) -> DataFrame:
    timed = _parsed(left).select("r.k", F.timestamp_seconds("r.t").alias("t"))
    groups = timed.groupBy("k", F.window("t", "10 minutes")).count()
    return groups.select(F.to_json(F.struct("k", "window.start", "count")).alias("value"))


_CASES = (
    _Case("copy, own settings", _copy, {_COMPACT: 1.0, _FULL: 0.0}, tuned=False),
    _Case("copy", _copy, {_COMPACT: 0.85, _FULL: 0.65}),
    _Case("parse and rewrite", _rewrite, {_COMPACT: 0.9}),
    _Case("join of two streams", _join, {_COMPACT: 0.85}, topics=(_SOURCE, _OTHER)),
    _Case("windowed count", _count, {_COMPACT: 0.9}, output_mode="update", written=1),
)


def measure(settings: Settings, *, records: int = _RECORDS, repeats: int = _REPEATS) -> BenchResult:
    """Ratios of records per second to the same job without lineage.

    Args:
        records: that each job reads.
    """
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("unchanged", repeats)
    spark = create_session(
        "bench_unchanged",
        settings,
        additional_configs={
            "spark.sql.extensions": ROW_LINEAGE,
            _ENABLED: "false",
            # The tasks of Spark's 200 would hide the cost of what is in them.
            "spark.sql.shuffle.partitions": str(_PARTITIONS),
        },
    )
    for case in _CASES:
        with (
            new_topic(_SOURCE, _PARTITIONS, settings),
            new_topic(_OTHER, _PARTITIONS, settings),
        ):
            _fill(case, records, settings)
            result.measurements += _measure(case, spark, settings, records, repeats)
    with new_topic(_SOURCE, _PARTITIONS, settings), new_topic(_TARGET, _PARTITIONS, settings):
        rows = _read(spark, settings, _SOURCE)
        result.measurements += measure_rewrite(spark, rows, _brokers(settings), _TARGET, repeats)
        delete_topics([f"{_TARGET}-parents"], settings.kafka)
    result.machine = machine_now(load)
    return result


def _measure(
    case: _Case, spark: SparkSession, settings: Settings, records: int, repeats: int
) -> list[Measurement]:
    states: dict[str, int] = {}
    stamps = (_OFF, *case.targets)
    contenders = {stamp: _contender(case, stamp, spark, settings, states) for stamp in stamps}
    timings = time_copies(
        contenders,
        _TARGET,
        records,
        settings,
        partitions=_PARTITIONS,
        repeats=repeats,
        size=lambda: bytes_on_disk(_TARGET, spark, settings),
        content=lambda: bytes_of_records(_TARGET, spark, settings),
        written=case.written or records // len(case.topics),
    )
    if case.job is _count:
        # The only job whose rows may have any number of parents.
        delete_topics([f"{_TARGET}-parents"], settings.kafka)
    measurements: list[Measurement] = []
    for stamp, target in case.targets.items():
        ratio = round(timings[stamp].rate / timings[_OFF].rate, 3)
        name = f"{case.name}, {stamp}"
        measurements.append(Measurement(f"{name} / off", ratio, "", target or None))
        content = round(timings[stamp].content / max(1, timings[_OFF].content), 2)
        measurements.append(Measurement(f"{name}: bytes of records / off", content, ""))
        stored = round(timings[stamp].size / max(1, timings[_OFF].size), 2)
        measurements.append(Measurement(f"{name}: bytes on disk / off", stored, ""))
    for stamp, timing in timings.items():
        measurements += timing.measurements(f"{case.name}, {stamp}", records)
    if states.get(_COMPACT):
        growth = round(states[_COMPACT] / states[_OFF], 1)
        limit = 20.0 if case.job is _count else None
        measurements.append(Measurement(f"{case.name}: state / off", growth, "", at_most=limit))
    return measurements


def _contender(
    case: _Case, stamp: str, spark: SparkSession, settings: Settings, states: dict[str, int]
) -> Copy:
    conf = {_ENABLED: "false"} if stamp == _OFF else {_ENABLED: "true", _STAMP: stamp}
    sink = {**PRODUCER, **_reliable()} if case.tuned else {}

    def run(folder: Path) -> None:
        rows = case.job(_read(spark, settings, _SOURCE), _read(spark, settings, _OTHER))
        with configured(spark, conf):
            query = (
                rows.writeStream.format("kafka")
                .options(**_brokers(settings), topic=_TARGET, checkpointLocation=str(folder))
                .options(**sink)
                .outputMode(case.output_mode)
                .queryName(f"bench_{stamp}")
                .trigger(availableNow=True)
                .start()
            )
        query.awaitTermination()
        progress = query.lastProgress
        operators = progress["stateOperators"] if progress else ()
        states[stamp] = sum(int(each["memoryUsedBytes"]) for each in operators)

    return run


def _reliable() -> dict[str, str]:
    options = Idempotent().options()
    return {name: value for name, value in options.items() if name.startswith("kafka.")}


def _read(spark: SparkSession, settings: Settings, topic: str) -> DataFrame:
    options: dict[str, Any] = {**_brokers(settings), "subscribe": topic}
    return spark.readStream.format("kafka").options(**options, startingOffsets="earliest").load()


def _brokers(settings: Settings) -> dict[str, str]:
    return {"kafka.bootstrap.servers": settings.bootstrap_servers}


def _fill(case: _Case, records: int, settings: Settings) -> None:
    """Numbered records, 50 for each second of event time, with one of 50 keys each."""
    # Not for secrets.
    chance = random.Random("unchanged")  # noqa: S311
    with RecordProducer(settings.kafka) as producer:
        for topic in case.topics:
            for number in range(records // len(case.topics)):
                key = b"%d" % (number % 1000)
                value = _value(number, chance)
                producer.send(topic, value, key, partition=number % _PARTITIONS)


def _value(number: int, chance: random.Random) -> bytes:
    """JSON of 400 bytes with random text: lz4 would store a repeated character as nothing."""
    fields = {"n": number, "k": number % 50, "t": _START + number // 50}
    start = json.dumps(fields)[:-1] + ', "text": "'
    missing = _RECORD_BYTES - 2 - len(start)
    text = base64.b64encode(chance.randbytes(missing)).decode()[:missing]
    return f'{start}{text}"}}'.encode()
