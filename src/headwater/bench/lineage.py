"""The cost of five lineage headers: Kafka to Kafka, compared with Spark without them."""

from __future__ import annotations

from headwater.bench.copying import headwater_copy, new_topic, plain_copy, time_copies
from headwater.bench.disk import bytes_on_disk
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.delivery.modes import PRODUCER
from headwater.generator import generate
from headwater.job import LineageJob
from headwater.kafka import RecordProducer
from headwater.model import Address, Lineage
from headwater.model.header import (
    LINEAGE,
    PARENT_LINEAGE,
    STAMP_HEADERS,
    JobStamp,
    encode,
    parent_lineage_text,
)
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.source import FETCH

_RECORDS = 400_000
_PARTITIONS = 2
_REPEATS = 5
_SOURCE = "bench-lineage-source"
_TARGET = "bench-lineage-target"
_RUN = "6b1f0c1e-0000-4000-8000-000000000000"

_DEFAULTS = "plain Spark, default settings"
_TUNED = "plain Spark, same settings"
_OURS = "Headwater, exactly once"
_TRANSACTIONAL = "Headwater, transactional"


def measure(settings: Settings) -> BenchResult:
    """Ratios of records per second; with CPU seconds of driver and JVM."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("lineage", _REPEATS)
    with new_topic(_SOURCE, _PARTITIONS, settings):
        _fill(settings)
        spark = LineageJob("bench_lineage", settings=settings).spark
        contenders = {
            _DEFAULTS: plain_copy(spark, settings, _SOURCE, _TARGET),
            _TUNED: plain_copy(spark, settings, _SOURCE, _TARGET, reading=FETCH, writing=PRODUCER),
            _OURS: headwater_copy(settings, _SOURCE, _TARGET),
            _TRANSACTIONAL: headwater_copy(settings, _SOURCE, _TARGET, "transactional"),
        }
        timings = time_copies(
            contenders,
            _TARGET,
            _RECORDS,
            settings,
            partitions=_PARTITIONS,
            repeats=_REPEATS,
            size=lambda: bytes_on_disk(_TARGET, spark, settings),
        )
    ours, transactional = timings[_OURS].rate, timings[_TRANSACTIONAL].rate
    plain, tuned = timings[_DEFAULTS].rate, timings[_TUNED].rate
    result.measurements += [
        Measurement(f"exactly once / {_DEFAULTS}", round(ours / plain, 3), "", 1.0),
        Measurement(f"transactional / {_DEFAULTS}", round(transactional / plain, 3), "", 0.75),
        Measurement(f"exactly once / {_TUNED}", round(ours / tuned, 3), "", 0.85),
    ]
    for name, timing in timings.items():
        result.measurements += timing.measurements(name, _RECORDS)
    stored = (timings[_OURS].size - timings[_TUNED].size) / _RECORDS
    result.measurements += [
        Measurement("five headers, uncompressed", _header_bytes(), "bytes per record"),
        Measurement("five headers, compressed on disk", round(stored, 1), "bytes per record"),
    ]
    result.machine = machine_now(load)
    return result


def _header_bytes() -> int:
    stamp = JobStamp("bench_copy", "v1.0.0", 0).headers(STAMP_HEADERS)
    parent = JobStamp("visits_decorator", "v1.0.0", 11).headers(STAMP_HEADERS)
    text = parent_lineage_text([(name, (value or b"").decode()) for name, value in parent])
    own = encode(Lineage(_RUN, (Address(_SOURCE, 0, _RECORDS // 2),)))
    headers = (*stamp, (PARENT_LINEAGE, text.encode()), (LINEAGE, own))
    return sum(len(name) + len(value or b"") for name, value in headers)


def _fill(settings: Settings) -> None:
    """Write visits with the headers of a Headwater job, which become `parent_lineage`."""
    stamp = JobStamp("visits_decorator", "v1.0.0", 11).headers(STAMP_HEADERS)
    with RecordProducer(settings.kafka) as producer:
        for number, (key, value) in enumerate(generate("visits", _RECORDS)):
            parent = Address("visits", number % 2, number)
            own = (LINEAGE, encode(Lineage(_RUN, (parent,))))
            producer.send(_SOURCE, value, key, headers=(*stamp, own))
