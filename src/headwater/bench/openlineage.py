"""The cost of dataset lineage: a streaming copy with and without it, and the cost per batch.

The catalog can't be reached meanwhile, which is the worst case for the job: events are written to
the spool, and delivery is retried.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.bench.copying import Copy, new_topic, time_copies
from headwater.bench.openlineage_batch import batch_measurements
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.collector.columns import describe
from headwater.generator import generate
from headwater.job import LineageJob
from headwater.jobs.visits_reducer_job import reduce_visits
from headwater.kafka import RecordProducer
from headwater.openlineage.spool.files import decode_line, segments_of
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.query_runner import Batches, OnBatch, ThrottledCallback

_RECORDS = 400_000
_PARTITIONS = 2
_PER_BATCH = 20_000
_REPEATS = 5
_SOURCE = "bench-openlineage-source"
_TARGET = "bench-openlineage-target"
# Long enough for a few RUNNING events.
_STEADY_SECONDS = 20.0
_STEADY_INTERVAL = 6.0
_STEADY_TRIGGER = {"processingTime": "500 milliseconds"}


def measure(settings: Settings) -> BenchResult:
    """Ratios with and without lineage."""
    load = load_now()
    result = BenchResult("openlineage", _REPEATS)
    result.measurements += measure_streaming(settings)
    result.measurements += batch_measurements(settings)
    result.machine = machine_now(load)
    return result


def measure_streaming(settings: Settings) -> list[Measurement]:
    """The measurements of streaming queries."""
    for _ in up(["kafka"], settings):
        pass
    with tempfile.TemporaryDirectory() as folder, new_topic(_SOURCE, _PARTITIONS, settings):
        _fill(settings)
        on = _with_lineage(settings, Path(folder) / "spool", enabled=True)
        off = _with_lineage(settings, Path(folder) / "spool", enabled=False)
        timings = time_copies(
            {"lineage on": _copy(on), "lineage off": _copy(off)},
            _TARGET,
            _RECORDS,
            settings,
            partitions=_PARTITIONS,
            repeats=_REPEATS,
        )
        share, start = _share_of_batches(on), _describe_seconds(on)
        events = _events_per_interval(on)
    ratio = timings["lineage on"].rate / timings["lineage off"].rate
    return [
        Measurement("streaming: lineage per micro-batch", round(share * 100, 4), "%", at_most=1.0),
        Measurement("streaming: events per query and interval", events, "", at_most=1.0),
        Measurement("streaming: records/s with lineage / without", round(ratio, 3), ""),
        Measurement("streaming: describing the plan at the start", round(start * 1000), "ms"),
        *timings["lineage on"].measurements("lineage on", _RECORDS),
        *timings["lineage off"].measurements("lineage off", _RECORDS),
    ]


def _with_lineage(settings: Settings, spool: Path, *, enabled: bool, **more: Any) -> Settings:
    lineage = settings.lineage.model_copy(update={"enabled": enabled, "spool": spool, **more})
    # No process listens on this port.
    catalog = settings.catalog.model_copy(update={"url": "http://127.0.0.1:1"})
    return settings.model_copy(update={"lineage": lineage, "catalog": catalog})


def _copy(settings: Settings, on_batch: OnBatch | None = None) -> Copy:
    def copy(checkpoint_folder: Path) -> None:
        job = LineageJob("bench_openlineage", settings=settings, checkpoint=checkpoint_folder)
        rows = _rows(job, _PER_BATCH)
        job.write(rows, _TARGET, trigger={"availableNow": True}, on_batch=on_batch)

    return copy


def _rows(job: LineageJob, per_batch: int) -> DataFrame:
    records = job.read(_SOURCE, maxOffsetsPerTrigger=per_batch)
    return records.select("key", "value", "lineage")


def _share_of_batches(settings: Settings) -> float:
    """The share of the micro-batches' duration that the driver spends on lineage: reading Spark's
    progress of a batch, and adding it up."""
    spent: list[float] = []
    batches: list[float] = []
    poll = Batches.poll

    def timed(self: Batches, query: StreamingQuery, *, now: bool = False) -> None:
        began = time.perf_counter()
        poll(self, query, now=now)
        spent.append(time.perf_counter() - began)

    def on_batch(progress: Mapping[str, Any]) -> None:
        batches.append(progress["durationMs"]["triggerExecution"] / 1000)

    Batches.poll = timed  # type: ignore[method-assign]
    try:
        with (
            new_topic(_TARGET, _PARTITIONS, settings),
            tempfile.TemporaryDirectory() as checkpoint_folder,
        ):
            _copy(settings, ThrottledCallback(on_batch))(Path(checkpoint_folder) / "checkpoint")
    finally:
        Batches.poll = poll  # type: ignore[method-assign]
    return sum(spent) / sum(batches)


def _describe_seconds(settings: Settings) -> float:
    """Seconds to derive the column lineage of a plan with a dozen steps."""
    job = LineageJob("bench_openlineage", settings=settings)
    rows = reduce_visits(job.read(_SOURCE))
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        describe(rows, columns=("key", "value"))
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _events_per_interval(settings: Settings) -> float:
    """RUNNING events of a steady query per configured interval."""
    lineage = settings.lineage.model_copy(update={"interval_seconds": _STEADY_INTERVAL})
    settings = settings.model_copy(update={"lineage": lineage})
    with (
        new_topic(_TARGET, _PARTITIONS, settings),
        tempfile.TemporaryDirectory() as checkpoint_folder,
    ):
        checkpoint = Path(checkpoint_folder) / "checkpoint"
        job = LineageJob("bench_steady", settings=settings, checkpoint=checkpoint)
        rows = _rows(job, _PER_BATCH // 10)
        timer = threading.Timer(_STEADY_SECONDS, _stop_queries, [job.spark])
        timer.start()
        began = time.monotonic()
        job.write(rows, _TARGET, trigger=_STEADY_TRIGGER)
        took = time.monotonic() - began
    running = sum(
        b'"job":{"namespace":' in line and b'"bench_steady"' in line and b'"RUNNING"' in line
        for path in segments_of(settings.spool_dir)
        for line in path.open("rb")
        if decode_line(line)
    )
    return round(running / (took / _STEADY_INTERVAL), 2)


def _stop_queries(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()


def _fill(settings: Settings) -> None:
    with RecordProducer(settings.kafka) as producer:
        for key, value in generate("visits", _RECORDS):
            producer.send(_SOURCE, value, key)
