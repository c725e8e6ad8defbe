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

from headwater.bench.result import BenchResult, Figure, load_now, machine_now
from headwater.delivery.modes import PRODUCER
from headwater.generator import generate
from headwater.kafka import RecordProducer, create_topic, delete_topics, end_offsets
from headwater.model import Address, Lineage
from headwater.pipeline import LineageJob
from headwater.rowlineage.codec import encode
from headwater.rowlineage.headers import BATCH_VERSION, JOB_NAME, JOB_VERSION, JobStamp
from headwater.services import up
from headwater.settings import Settings
from headwater.spark.kafka_source import FETCH

_RECORDS = 400_000
_PARTITIONS = 2
_REPEATS = 5
_SOURCE = "bench-lineage-source"
_TARGET = "bench-lineage-target"

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
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        cpu: dict[str, list[float]] = {name: [] for name in contenders}
        # The first round warms the JVM up and does not count.
        for round_ in range(_REPEATS + 1):
            for name, copy in contenders.items():
                rate, seconds = _time(copy, settings)
                if round_:
                    rates[name].append(rate)
                    cpu[name].append(seconds)
    _add_figures(result, rates, cpu)
    result.machine = machine_now(load)
    return result


def _contenders(spark: SparkSession, settings: Settings) -> dict[str, Copy]:
    return {
        "plain Spark, default settings": lambda place: _plain(spark, settings, place, {}, {}),
        "plain Spark, same settings": lambda place: _plain(spark, settings, place, FETCH, PRODUCER),
        "Headwater, exactly once": lambda place: _headwater(settings, place),
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


def _headwater(settings: Settings, place: Path) -> None:
    job = LineageJob("bench_lineage", settings=settings, checkpoint=place)
    records = job.read(_SOURCE).select("key", "value", "lineage")
    job.write(records, _TARGET, trigger={"availableNow": True})


def _time(copy: Copy, settings: Settings) -> tuple[float, float]:
    with _topic(_TARGET, settings), tempfile.TemporaryDirectory() as place:
        cpu, began = _cpu_seconds(), time.monotonic()
        copy(Path(place) / "checkpoint")
        seconds, used = time.monotonic() - began, _cpu_seconds() - cpu
        written = sum(end_offsets(_TARGET, settings).values())
        if written < _RECORDS:
            raise RuntimeError(f"{written} of {_RECORDS} records were copied")
    return _RECORDS / seconds, used


def _cpu_seconds() -> float:
    """Of this process and its JVM; the broker's is not counted."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _add_figures(
    result: BenchResult, rates: dict[str, list[float]], cpu: dict[str, list[float]]
) -> None:
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ours = medians["Headwater, exactly once"]
    plain, tuned = medians["plain Spark, default settings"], medians["plain Spark, same settings"]
    result.figures += [
        Figure("exactly once / plain Spark, default settings", round(ours / plain, 3), "", 1.0),
        Figure("exactly once / plain Spark, same settings", round(ours / tuned, 3), "", 0.85),
    ]
    for name, value in medians.items():
        seconds = statistics.median(cpu[name]) * 1_000_000 / _RECORDS
        result.figures += [
            Figure(name, round(value), "records/s"),
            Figure(f"{name}: CPU", round(seconds, 2), "s per million records"),
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
    stamp = JobStamp("visits_decorator", "v1.0.0", 11).headers(
        (JOB_VERSION, JOB_NAME, BATCH_VERSION)
    )
    run = "6b1f0c1e-0000-4000-8000-000000000000"
    with RecordProducer(settings) as producer:
        for number, (key, value) in enumerate(generate("visits", _RECORDS)):
            parent = Address("visits", number % 2, number)
            own = ("lineage", encode(Lineage(run, (parent,))))
            producer.send(_SOURCE, value, key, headers=(*stamp, own))
