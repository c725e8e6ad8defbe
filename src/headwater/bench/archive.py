"""The rate of archiving a topic, and the time to read a few records of an archive.

Archiving is compared with Spark's own Kafka source and Parquet sink, alternating in one session:
they write no hour partitions, check nothing and commit no table version. Reading is timed on two
archives of the same layout, one of them ten times as long.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.bench.copying import Timing, cpu_seconds, new_topic
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.generator import generate
from headwater.jobs.data_synchronization_job import main as archive_job
from headwater.kafka import RecordProducer
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.session import create_session
from headwater.spark.writers.archive_rows import archive_rows
from headwater.spark.writers.archive_table import append, make_table
from headwater.storage.archive.compaction import compact
from headwater.storage.archive.contract import COLUMNS
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

# Visits in the order of their event time; and as generated, with the hours of a complete day mixed
# in each batch.
_TOPIC, _MIXED = "bench-archive", "bench-archive-mixed"
_RECORDS = 1_000_000
_PARTITIONS = 2
_REPEATS = 3
_OURS, _PLAIN = "data_synchronization_job", "plain Spark, Kafka to Parquet"
_OURS_MIXED = "data_synchronization_job, hours mixed"
_START = datetime(2024, 1, 1, tzinfo=UTC)
_TIME_FIELD = b'"event_time": "'

_MILLION = 1_000_000
_RANGE = 1_000
_QUERIES = 200
_WARM_UP = 20
_OPENINGS = 20
# Event time between two records of a partition: an hour has 100,000 of them.
_STEP_MS = 36
_CHANCE = random.Random(7)  # noqa: S311 - a choice, not a secret

# Takes an empty folder; returns when the topic is archived in it.
Contender = Callable[[Path], None]


def measure(settings: Settings) -> BenchResult:
    """Archiving rates, and the time to read 1,000 records."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("archive", _REPEATS)
    spark = create_session("bench_archive", settings, connectors=("kafka", "delta"))
    with (
        new_topic(_TOPIC, _PARTITIONS, settings),
        new_topic(_MIXED, _PARTITIONS, settings),
    ):
        _fill(settings)
        timings = _time_alternately(_contenders(spark, settings), _REPEATS)
    plain = timings[_PLAIN].rate
    ours, mixed = timings[_OURS].rate / plain, timings[_OURS_MIXED].rate / plain
    result.measurements += [
        Measurement("archiving / plain", round(ours, 3), "", at_least=0.8),
        Measurement("archiving / plain, hours mixed", round(mixed, 3), ""),
    ]
    for name, timing in timings.items():
        result.measurements += timing.measurements(name, _RECORDS)
    with tempfile.TemporaryDirectory() as folder:
        _measure_reading(result, spark, Path(folder), settings)
    result.machine = machine_now(load)
    return result


def _fill(settings: Settings) -> None:
    with RecordProducer(settings.kafka) as producer:
        for number, (key, value) in enumerate(generate("visits", _RECORDS)):
            producer.send(_MIXED, value, key)
            producer.send(_TOPIC, _with_event_time(value, number), key)


def _with_event_time(value: bytes, number: int) -> bytes:
    """The visit with an event time in the order of arrival, all within one hour."""
    event_time = _START + timedelta(hours=number / _RECORDS)
    text = event_time.isoformat(timespec="seconds").encode()
    begin = value.index(_TIME_FIELD) + len(_TIME_FIELD)
    return value[:begin] + text + value[begin + len(text) :]


def _contenders(spark: SparkSession, settings: Settings) -> dict[str, Contender]:
    return {
        _PLAIN: _plain(spark, settings),
        _OURS: _ours(settings, _TOPIC),
        _OURS_MIXED: _ours(settings, _MIXED),
    }


def _plain(spark: SparkSession, settings: Settings) -> Contender:
    def run(folder: Path) -> None:
        stream = (
            spark.readStream.format("kafka")
            .options(
                **{"kafka.bootstrap.servers": settings.bootstrap_servers},
                subscribe=_TOPIC,
                startingOffsets="earliest",
            )
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .option("path", str(folder / "table"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    return run


def _ours(settings: Settings, topic: str) -> Contender:
    def run(folder: Path) -> None:
        arguments = {
            "--input-topic": topic,
            "--table": str(folder / "table"),
            "--checkpoint": str(folder / "checkpoint"),
        }
        options = [word for pair in arguments.items() for word in pair]
        archive_job.main(
            ["--available-now", "--quiet", *options], standalone_mode=False, obj=settings
        )

    return run


def _time_alternately(contenders: Mapping[str, Contender], repeats: int) -> dict[str, Timing]:
    """Run all contenders alternately; an extra first round warms up the JVM."""
    timings = {name: Timing() for name in contenders}
    for round_ in range(repeats + 1):
        for name, contender in contenders.items():
            with tempfile.TemporaryDirectory() as folder:
                cpu, began = cpu_seconds(), time.monotonic()
                contender(Path(folder))
                seconds, used = time.monotonic() - began, cpu_seconds() - cpu
            if round_:
                timings[name].rates.append(_RECORDS / seconds)
                timings[name].cpu.append(used)
    return timings


def _measure_reading(
    result: BenchResult, spark: SparkSession, folder: Path, settings: Settings
) -> None:
    paths = [folder / "1-million", folder / "10-million"]
    small, large = (
        _write_archive(spark, path, millions, settings)
        for path, millions in zip(paths, (1, 10), strict=True)
    )
    near_ranges = [_random_range(_MILLION // _PARTITIONS) for _ in range(_QUERIES + _WARM_UP)]
    far_ranges = [_shifted(ranges) for ranges in near_ranges]
    times: list[list[float]] = [[], []]
    openings: list[list[float]] = [[], []]
    # Alternating, so that noise affects both equally.
    for near, far in zip(near_ranges, far_ranges, strict=True):
        times[0].append(_timed(partial(_read, small, near)))
        times[1].append(_timed(partial(_read, large, far)))
    for near, far in zip(near_ranges[:_OPENINGS], far_ranges[:_OPENINGS], strict=True):
        openings[0].append(_timed(partial(_open_and_read, paths[0], near)))
        openings[1].append(_timed(partial(_open_and_read, paths[1], far)))
    medians = [statistics.median(each[_WARM_UP:]) for each in times]
    opening = [statistics.median(each) for each in openings]
    opened = [_files_opened(small, near_ranges), _files_opened(large, far_ranges)]
    result.measurements += [
        Measurement("1,000 of 1 million records", round(medians[0], 2), "ms"),
        Measurement("1,000 of 10 million records", round(medians[1], 2), "ms"),
        Measurement("10 million / 1 million", round(medians[1] / medians[0], 2), "", at_most=1.3),
        Measurement(
            "10 million / 1 million, including opening", round(opening[1] / opening[0], 2), ""
        ),
        Measurement("1,000 of 10 million, including opening", round(opening[1], 1), "ms"),
        Measurement("files opened, of 1 million", opened[0], "on average"),
        Measurement("files opened, of 10 million", opened[1], "on average", at_most=opened[0]),
        Measurement("files, of 1 million", len(small.files), ""),
        Measurement("files, of 10 million", len(large.files), ""),
    ]


def _write_archive(spark: SparkSession, path: Path, millions: int, settings: Settings) -> Archive:
    """Write a compacted archive as the job writes it."""
    make_table(spark, path, _TOPIC, "bench")
    per_commit = _MILLION // _PARTITIONS
    for begin in range(0, millions * _MILLION // _PARTITIONS, per_commit):
        append(_rows(spark, begin, per_commit), path)
    archive = Archive(path)
    compact(archive, settings, everything=True)
    return archive


def _rows(spark: SparkSession, begin: int, number: int) -> DataFrame:
    """`number` records of each partition from `begin` on; one task per partition, as with Kafka."""
    row = F.col("id")
    offset = F.lit(begin) + row % number
    event_time = F.timestamp_millis(F.lit(1_704_067_200_000) + offset * _STEP_MS)
    text = F.concat(
        F.lit('{"visit_id": "'),
        F.sha2(offset.cast("string"), 256),
        F.lit('", "event_time": "'),
        F.date_format(event_time, "yyyy-MM-dd'T'HH:mm:ss.SSS"),
        F.lit('", "page": "'),
        F.sha2(row.cast("string"), 256),
        F.lit('"}'),
    )
    records = spark.range(0, number * _PARTITIONS, 1, _PARTITIONS).select(
        text.cast("binary").alias("value"),
        F.floor(row / number).cast("int").alias("partition"),
        offset.alias("offset"),
        F.lit(_TOPIC).alias("topic"),
        F.lit(None).cast("binary").alias("key"),
        F.lit(None).cast(COLUMNS["headers"]).alias("headers"),
        event_time.alias("timestamp"),
    )
    return archive_rows(records, "event_time")


def _random_range(offsets: int) -> Mapping[int, OffsetRanges]:
    first = _CHANCE.randrange(offsets - _RANGE)
    return {_CHANCE.randrange(_PARTITIONS): OffsetRanges.of((first, first + _RANGE - 1))}


def _shifted(ranges: Mapping[int, OffsetRanges]) -> Mapping[int, OffsetRanges]:
    """The same position within an hour, anywhere in an archive that is ten times as long."""
    by = _CHANCE.randrange(10) * _MILLION // _PARTITIONS
    return {p: OffsetRanges(offsets.first + by, offsets.last + by) for p, offsets in ranges.items()}


def _timed(query: Callable[[], int]) -> float:
    began = time.perf_counter()
    records = query()
    milliseconds = (time.perf_counter() - began) * 1000
    if records != _RANGE:
        raise RuntimeError(f"{records} of {_RANGE} records were read")
    return milliseconds


def _read(archive: Archive, ranges: Mapping[int, OffsetRanges]) -> int:
    return sum(1 for _ in archive.read(ranges))


def _open_and_read(path: Path, ranges: Mapping[int, OffsetRanges]) -> int:
    return _read(Archive(path), ranges)


def _files_opened(archive: Archive, queries: Sequence[Mapping[int, OffsetRanges]]) -> float:
    return round(statistics.mean(len(archive.files_of(ranges)) for ranges in queries), 2)
