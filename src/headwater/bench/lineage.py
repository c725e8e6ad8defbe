"""What five lineage headers cost: Kafka to Kafka, against Spark without them.

Contenders copy the same topic in turn, in one session, so that the machine's noise hits all of
them alike. Each copy is timed from the start of its query to its end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from headwater.bench.disk import bytes_on_disk
from headwater.bench.result import BenchResult, Figure, load_now, machine_now
from headwater.delivery.modes import PRODUCER
from headwater.generator import generate
from headwater.kafka import RecordProducer, create_topic, delete_topics, end_offsets
from headwater.model import Address, Lineage
from headwater.pipeline import LineageJob
from headwater.rowlineage.codec import encode
from headwater.rowlineage.headers import (
    LINEAGE,
    PARENT_LINEAGE,
    STAMP_HEADERS,
    JobStamp,
    parent_lineage_text,
)
from headwater.services import up
from headwater.settings import Settings
from headwater.spark.kafka_source import FETCH

_RECORDS = 400_000
_PARTITIONS = 2
_REPEATS = 5
_SOURCE = "bench-lineage-source"
_TARGET = "bench-lineage-target"
_RUN = "6b1f0c1e-0000-4000-8000-000000000000"

_PLAIN, _TUNED = "plain Spark, default settings", "plain Spark, same settings"
_OURS, _STRICT = "Headwater, exactly once", "Headwater, strict"

Copy = Callable[[Path], None]


def measure(settings: Settings) -> BenchResult:
    """Ratios of records per second; CPU seconds of driver and JVM beside them."""
    load = load_now()
    for _ in up(["kafka"], settings, lambda group: lambda done, total: None):
        pass
    result = BenchResult("lineage", _REPEATS)
    with _topic(_SOURCE, settings):
        _fill(settings)
        job = LineageJob("bench_lineage", settings=settings)
        contenders = _contenders(job.spark, settings)
        sizes: dict[str, int] = {}
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        cpu: dict[str, list[float]] = {name: [] for name in contenders}
        # The first round warms the JVM up and does not count.
        for round_ in range(_REPEATS + 1):
            for name, copy in contenders.items():
                rate, seconds, sizes[name] = _time(copy, job.spark, settings)
                if round_:
                    rates[name].append(rate)
                    cpu[name].append(seconds)
    _add_figures(result, rates, cpu)
    _add_header_bytes(result, sizes)
    result.machine = machine_now(load)
    return result


def _contenders(spark: SparkSession, settings: Settings) -> dict[str, Copy]:
    return {
        _PLAIN: lambda place: _plain(spark, settings, place, {}, {}),
        _TUNED: lambda place: _plain(spark, settings, place, FETCH, PRODUCER),
        _OURS: lambda place: _headwater(settings, place, "exactly-once"),
        _STRICT: lambda place: _headwater(settings, place, "strict"),
    }


def _plain(
    spark: SparkSession,
    settings: Settings,
    place: Path,
    source: dict[str, str],
    sink: dict[str, str],
) -> None:
    brokers = {"kafka.bootstrap.servers": settings.bootstrap_servers}
    stream = (
        spark.readStream.format("kafka")
        .options(**brokers, subscribe=_SOURCE, startingOffsets="earliest", **source)
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("kafka")
        .options(**brokers, topic=_TARGET, checkpointLocation=str(place), **sink)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _headwater(settings: Settings, place: Path, delivery: str) -> None:
    job = LineageJob("bench_lineage", settings=settings, checkpoint=place, delivery=delivery)
    records = job.read(_SOURCE).select("key", "value", "lineage")
    job.write(records, _TARGET, trigger={"availableNow": True})


def _time(copy: Copy, spark: SparkSession, settings: Settings) -> tuple[float, float, int]:
    """Records per second, CPU seconds, and the bytes that the output takes on the broker's disk."""
    with _topic(_TARGET, settings), tempfile.TemporaryDirectory() as place:
        cpu, began = _cpu_seconds(), time.monotonic()
        copy(Path(place) / "checkpoint")
        seconds, used = time.monotonic() - began, _cpu_seconds() - cpu
        written = sum(end_offsets(_TARGET, settings).values())
        # Transactions take offsets, too.
        if written < _RECORDS:
            raise RuntimeError(f"{written} of {_RECORDS} records were copied")
        size = bytes_on_disk(_TARGET, spark, settings)
    return _RECORDS / seconds, used, size


def _cpu_seconds() -> float:
    """Of this process and its JVM; the broker's is not counted."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _add_figures(
    result: BenchResult, rates: dict[str, list[float]], cpu: dict[str, list[float]]
) -> None:
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ours, strict, plain, tuned = (medians[name] for name in (_OURS, _STRICT, _PLAIN, _TUNED))
    result.figures += [
        Figure("exactly once / plain Spark, default settings", round(ours / plain, 3), "", 1.0),
        Figure("strict / plain Spark, default settings", round(strict / plain, 3), "", 0.75),
        Figure("exactly once / plain Spark, same settings", round(ours / tuned, 3), "", 0.85),
    ]
    for name, value in medians.items():
        seconds = statistics.median(cpu[name]) * 1_000_000 / _RECORDS
        result.figures += [
            Figure(name, round(value), "records/s"),
            Figure(f"{name}: CPU", round(seconds, 2), "s per million records"),
        ]


def _add_header_bytes(result: BenchResult, sizes: dict[str, int]) -> None:
    stamp = JobStamp("bench_lineage", "v1.0.0", 0).headers(STAMP_HEADERS)
    parent = JobStamp("visits_decorator", "v1.0.0", 11).headers(STAMP_HEADERS)
    text = parent_lineage_text([(name, (value or b"").decode()) for name, value in parent])
    own = encode(Lineage(_RUN, (Address(_SOURCE, 0, _RECORDS // 2),)))
    headers = (*stamp, (PARENT_LINEAGE, text.encode()), (LINEAGE, own))
    plain = sum(len(name) + len(value or b"") for name, value in headers)
    stored = (sizes[_OURS] - sizes[_TUNED]) / _RECORDS
    result.figures += [
        Figure("five headers, as they are", plain, "bytes per record"),
        Figure("five headers, compressed on disk", round(stored, 1), "bytes per record"),
    ]


@contextmanager
def _topic(name: str, settings: Settings) -> Iterator[None]:
    create_topic(name, _PARTITIONS, settings)
    try:
        yield
    finally:
        delete_topics([name], settings)
        _wait_until_gone(name, settings)


def _wait_until_gone(name: str, settings: Settings) -> None:
    from headwater.kafka import list_topics

    for _ in range(200):
        if name not in {topic.name for topic in list_topics(settings)}:
            return
        time.sleep(0.05)


def _fill(settings: Settings) -> None:
    """Visits as another job of Headwater's wrote them: their stamp becomes `parent_lineage`."""
    stamp = JobStamp("visits_decorator", "v1.0.0", 11).headers(STAMP_HEADERS)
    with RecordProducer(settings) as producer:
        for number, (key, value) in enumerate(generate("visits", _RECORDS)):
            parent = Address("visits", number % 2, number)
            own = ("lineage", encode(Lineage(_RUN, (parent,))))
            producer.send(_SOURCE, value, key, headers=(*stamp, own))
