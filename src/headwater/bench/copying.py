"""Times how fast Spark copies a topic: shared by the benchmarks of jobs.

Contenders copy the same topic alternately, in one session, so that noise affects all of them
equally. Each copy is timed from the start of its query to its end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from headwater.bench.result import Measurement
from headwater.job import LineageJob
from headwater.kafka import create_topic, delete_topics, end_offsets, list_topics
from headwater.settings import Settings

# Takes a folder for its checkpoint; returns when all records are copied.
Copy = Callable[[Path], None]


@dataclass
class Timing:
    """Records per second and CPU seconds of driver and JVM of one contender, by round."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    # Size of the copy on the broker's disk, and of keys, values and headers, if measured.
    size: int = 0
    content: int = 0

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def measurements(self, name: str, records: int) -> list[Measurement]:
        seconds = statistics.median(self.cpu) * 1_000_000 / records
        return [
            Measurement(name, round(self.rate), "records/s"),
            Measurement(f"{name}: CPU", round(seconds, 2), "s per million records"),
        ]


def plain_copy(
    spark: SparkSession,
    settings: Settings,
    source: str,
    target: str,
    *,
    reading: Mapping[str, str] | None = None,
    writing: Mapping[str, str] | None = None,
) -> Copy:
    """A copy by Spark's own source and sink: key and value, without headers."""

    def copy(folder: Path) -> None:
        brokers = {"kafka.bootstrap.servers": settings.bootstrap_servers}
        stream = (
            spark.readStream.format("kafka")
            .options(**brokers, subscribe=source, startingOffsets="earliest", **(reading or {}))
            .load()
        )
        query = (
            stream.select("key", "value")
            .writeStream.format("kafka")
            .options(**brokers, topic=target, checkpointLocation=str(folder), **(writing or {}))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    return copy


def headwater_copy(
    settings: Settings, source: str, target: str, delivery: str | None = None
) -> Copy:
    """A copy by a Headwater job: key, value, headers and lineage."""

    def copy(folder: Path) -> None:
        job = LineageJob("bench_copy", settings=settings, checkpoint=folder, delivery=delivery)
        records = job.read(source).select("key", "value", "lineage")
        job.write(records, target, trigger={"availableNow": True})

    return copy


def time_copies(
    contenders: Mapping[str, Copy],
    target: str,
    records: int,
    settings: Settings,
    *,
    partitions: int,
    repeats: int,
    size: Callable[[], int] = lambda: 0,
    content: Callable[[], int] = lambda: 0,
    written: int | None = None,
) -> dict[str, Timing]:
    """Run all contenders alternately, `repeats` times; an extra first round warms up the JVM.

    Args:
        content: the bytes in the records of a copy; called once for each contender.
        written: how many records each has to write at least. Default: as many as it reads.
    """
    timings = {name: Timing() for name in contenders}
    for round_ in range(repeats + 1):
        for name, copy in contenders.items():
            with new_topic(target, partitions, settings), tempfile.TemporaryDirectory() as folder:
                cpu, began = cpu_seconds(), time.monotonic()
                copy(Path(folder) / "checkpoint")
                seconds, used = time.monotonic() - began, cpu_seconds() - cpu
                check_copied(target, written or records, settings)
                timings[name].size = size()
                if not round_:
                    timings[name].content = content()
            if round_:
                timings[name].rates.append(records / seconds)
                timings[name].cpu.append(used)
    return timings


def check_copied(target: str, records: int, settings: Settings) -> None:
    written = sum(end_offsets(target, settings.kafka).values())
    if written < records:
        raise RuntimeError(f"{written} of {records} records were copied")


def cpu_seconds() -> float:
    """CPU time of this process and its JVM, without the broker."""
    process = psutil.Process()
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(used.user + used.system for used in times))


@contextmanager
def new_topic(name: str, partitions: int, settings: Settings) -> Iterator[None]:
    """A topic that is deleted afterwards."""
    create_topic(name, partitions, settings.kafka)
    try:
        yield
    finally:
        delete_topics([name], settings.kafka)
        _wait_until_deleted(name, settings)


def _wait_until_deleted(name: str, settings: Settings) -> None:
    for _ in range(200):
        if name not in {topic.name for topic in list_topics(settings.kafka)}:
            return
        time.sleep(0.05)
