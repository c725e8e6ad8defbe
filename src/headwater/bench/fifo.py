"""The rate of ordered delivery: `batched` and `idempotent` compared with Spark's own sink,
`individual` compared with a loop of produce and flush.

A sink that waits for each record is timed by the timestamps of the first and the last record: a
query takes a second to start, in which a loop sends thousands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

from headwater.bench.copying import (
    Timing,
    check_copied,
    cpu_seconds,
    headwater_copy,
    new_topic,
    plain_copy,
    time_copies,
)
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.generator import generate
from headwater.job import LineageJob
from headwater.kafka import RecordProducer, read_topic
from headwater.service import up
from headwater.settings import Settings

_RECORDS = 400_000
_SINGLE = 12_000
_PARTITIONS = 2
_MANY = 4
_REPEATS = 5
# Rounds that are not counted: with single sends the JVM compiles the producer's code after about
# 30,000 records, and jobs run longer than that.
_WARM_UP = 3
_SOURCE = "bench-fifo-source"
_TARGET = "bench-fifo-target"

_PLAIN = "Spark's own sink, default settings"
_LOOP = "produce and flush, linger 0, one partition"
_ONE = "individual, one partition"
_FOUR = "individual, four partitions"


def measure(settings: Settings) -> BenchResult:
    """Ratios of records per second; with CPU seconds of driver and JVM."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("fifo", _REPEATS)
    _measure_pipelined(result, settings)
    _measure_individual(result, settings)
    result.machine = machine_now(load)
    return result


def _measure_pipelined(result: BenchResult, settings: Settings) -> None:
    with new_topic(_SOURCE, _PARTITIONS, settings):
        _fill(_RECORDS, _PARTITIONS, settings)
        spark = LineageJob("bench_fifo", settings=settings).spark
        contenders = {
            _PLAIN: plain_copy(spark, settings, _SOURCE, _TARGET),
            "batched": headwater_copy(settings, _SOURCE, _TARGET, "batched"),
            "idempotent": headwater_copy(settings, _SOURCE, _TARGET, "idempotent"),
        }
        timings = time_copies(
            contenders, _TARGET, _RECORDS, settings, partitions=_PARTITIONS, repeats=_REPEATS
        )
        # A job with single sends needs a session with other settings.
        spark.stop()
    plain = timings[_PLAIN].rate
    for mode in ("batched", "idempotent"):
        ratio = round(timings[mode].rate / plain, 3)
        result.measurements.append(Measurement(f"{mode} / {_PLAIN}", ratio, "", 1.0))
    for name, timing in timings.items():
        result.measurements += timing.measurements(name, _RECORDS)


def _measure_individual(result: BenchResult, settings: Settings) -> None:
    timings = {name: Timing() for name in (_LOOP, _ONE, _FOUR)}
    for round_ in range(_WARM_UP + _REPEATS):
        measured = {
            _LOOP: _time(1, settings, _send_and_flush),
            _ONE: _time(1, settings, _copy_one_by_one),
            _FOUR: _time(_MANY, settings, _copy_one_by_one),
        }
        for name, (rate, cpu) in measured.items():
            if round_ >= _WARM_UP:
                timings[name].rates.append(rate)
                timings[name].cpu.append(cpu)
    loop, one, four = (timings[name].rate for name in (_LOOP, _ONE, _FOUR))
    result.measurements += [
        Measurement(f"{_ONE} / {_LOOP}", round(one / loop, 3), "", 0.9),
        Measurement(f"{_FOUR} / {_ONE}", round(four / one, 3), "", 1.6),
    ]
    for name, timing in timings.items():
        result.measurements += timing.measurements(name, _SINGLE)


def _time(
    partitions: int, settings: Settings, copy: Callable[[int, Settings], None]
) -> tuple[float, float]:
    """Records per second from the first to the last record, and CPU seconds."""
    with new_topic(_SOURCE, partitions, settings), new_topic(_TARGET, partitions, settings):
        _fill(_SINGLE, partitions, settings)
        cpu = cpu_seconds()
        copy(partitions, settings)
        used = cpu_seconds() - cpu
        check_copied(_TARGET, _SINGLE, settings)
        sent = [record.timestamp_ms or 0 for record in read_topic(_TARGET, settings.kafka)]
    return len(sent) * 1000 / max(max(sent) - min(sent), 1), used


def _copy_one_by_one(partitions: int, settings: Settings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        headwater_copy(settings, _SOURCE, _TARGET, "individual")(Path(folder) / "checkpoint")


def _send_and_flush(partitions: int, settings: Settings) -> None:
    records = list(generate("visits", _SINGLE))
    minimal: dict[str, int | str] = {
        "linger.ms": 0,
        "compression.type": "none",
        "enable.idempotence": False,
    }
    with RecordProducer(settings.kafka, **minimal) as producer:
        for key, value in records:
            producer.send(_TARGET, value, key, partition=0)
            producer.flush()


def _fill(records: int, partitions: int, settings: Settings) -> None:
    """Write visits, evenly distributed over the partitions."""
    with RecordProducer(settings.kafka) as producer:
        targets = islice(cycle(range(partitions)), records)
        for (key, value), partition in zip(generate("visits", records), targets, strict=True):
            producer.send(_SOURCE, value, key, partition=partition)
