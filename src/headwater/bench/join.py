"""The cost of a join with lineage, side outputs and state on disk, compared with plain Spark.

The plain join is `from_json`, `withWatermark`, a left outer join and `to_json`, with Spark's own
Kafka source and sink. All read the same topics in the same batches in one session, with as many
state partitions as the topics have. The target applies to the same state store: it is the cost of
lineage and side outputs. The cost of RocksDB is shown separately.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.bench.copying import Timing, cpu_seconds, new_topic
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.job import LineageJob
from headwater.jobs.visits_ads_enrichment_job import enriched_visit, sides, visit_id
from headwater.join.watermark_join import PARTITIONS_SETTING, STATE_STORES, WatermarkJoin
from headwater.kafka import RecordProducer, end_offsets
from headwater.model.topic_names import dead_letter_topic, heartbeat_topic, late_topic
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.configuration import configured

_RECORDS = 200_000
_PARTITIONS = 2
_PER_BATCH = 50_000
_REPEATS = 3
_VISITS, _ADS, _TARGET = "bench-join-visits", "bench-join-ads", "bench-join-target"
# A topic that stays empty.
_NO_ADS = "bench-join-no-ads"
# Ten visits per second on this number of pages: about a dozen visits of each page wait.
_PAGES = 20_000
_STEP_SECONDS = 0.1
_LATEST_AD_SECONDS = 240
_PLAIN, _PLAIN_ROCKS = "plain Spark, state in memory", "plain Spark, state in RocksDB"
_OURS, _OURS_MEMORY = "Headwater, state in RocksDB", "Headwater, state in memory"

# Takes a folder for its checkpoint; returns when all records are joined.
Run = Callable[[Path], None]


def measure(settings: Settings) -> BenchResult:
    """Ratios of records per second (visits and ads), and state bytes of a waiting visit."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("join", _REPEATS)
    with ExitStack() as stack:
        side_outputs = [dead_letter_topic(_TARGET), late_topic(_TARGET), heartbeat_topic(_TARGET)]
        for topic in (_VISITS, _ADS, _NO_ADS, *side_outputs):
            stack.enter_context(new_topic(topic, _PARTITIONS, settings))
        _fill(settings)
        spark = LineageJob("bench_join", settings=settings).spark
        timings = _time(_contenders(spark, settings, _ADS), settings)
        states = {
            name: _state_bytes(run, settings)
            for name, run in _contenders(spark, settings, _NO_ADS).items()
        }
    rates = {name: timing.rate for name, timing in timings.items()}
    result.measurements += [
        Measurement(
            f"{_OURS} / {_PLAIN_ROCKS}", round(rates[_OURS] / rates[_PLAIN_ROCKS], 3), "", 0.85
        ),
        Measurement(
            f"{_OURS_MEMORY} / {_PLAIN}", round(rates[_OURS_MEMORY] / rates[_PLAIN], 3), "", 0.85
        ),
        Measurement(f"{_OURS} / {_PLAIN}", round(rates[_OURS] / rates[_PLAIN], 3), ""),
    ]
    for name, timing in timings.items():
        result.measurements += timing.measurements(name, 2 * _RECORDS)
    for name, size in states.items():
        result.measurements.append(
            Measurement(f"{name}: state", round(size), "bytes per waiting visit")
        )
    result.machine = machine_now(load)
    return result


def _contenders(spark: SparkSession, settings: Settings, ads: str) -> dict[str, Run]:
    return {
        _PLAIN: _plain(spark, settings, ads, "memory"),
        _PLAIN_ROCKS: _plain(spark, settings, ads, "rocksdb"),
        _OURS: _headwater(settings, ads, "rocksdb"),
        _OURS_MEMORY: _headwater(settings, ads, "memory"),
    }


def _plain(spark: SparkSession, settings: Settings, ads: str, store: str) -> Run:
    brokers = {"kafka.bootstrap.servers": settings.bootstrap_servers}

    def read(topic: str, fields: str) -> DataFrame:
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        options["maxOffsetsPerTrigger"] = str(_PER_BATCH)
        stream = spark.readStream.format("kafka").options(**brokers, **options).load()
        return stream.select(
            F.from_json(F.col("value").cast("string"), fields).alias("data")
        ).select("data.*")

    def run(folder: Path) -> None:
        visits = read(_VISITS, "visit_id string, event_time timestamp, page string")
        displays = read(ads, "page string, display_time timestamp, campaign_name string")
        joined = (
            visits.withColumnRenamed("page", "visit_page")
            .withWatermark("event_time", "10 minutes")
            .join(
                displays.withWatermark("display_time", "10 minutes"),
                F.expr(
                    "page = visit_page AND display_time BETWEEN event_time AND "
                    "event_time + INTERVAL 2 MINUTES"
                ),
                "left_outer",
            )
        )
        sink = (
            joined.select(F.to_json(F.struct("*")).alias("value"))
            .writeStream.format("kafka")
            .options(**brokers, topic=_TARGET, checkpointLocation=str(folder))
            .trigger(availableNow=True)
        )
        with configured(spark, {**STATE_STORES[store], PARTITIONS_SETTING: str(_PARTITIONS)}):
            query = sink.start()
            query.awaitTermination()

    return run


def _headwater(settings: Settings, ads: str, store: str) -> Run:
    def run(folder: Path) -> None:
        job = LineageJob("bench_join", settings=settings, checkpoint=folder)
        join = WatermarkJoin(
            job,
            *sides(_VISITS, ads),
            _TARGET,
            within=("0 seconds", "2 minutes"),
            how="left_outer",
            key=visit_id,
            value=enriched_visit,
            max_records_per_batch=_PER_BATCH,
            state_store=store,
        )
        join.write(trigger={"availableNow": True})

    return run


def _time(contenders: Mapping[str, Run], settings: Settings) -> dict[str, Timing]:
    """Run all contenders alternately; an extra first round warms up the JVM."""
    timings = {name: Timing() for name in contenders}
    rows: set[int] = set()
    for round_ in range(_REPEATS + 1):
        for name, run in contenders.items():
            with new_topic(_TARGET, _PARTITIONS, settings), _checkpoint() as folder:
                cpu, began = cpu_seconds(), time.monotonic()
                run(folder)
                seconds, used = time.monotonic() - began, cpu_seconds() - cpu
                rows.add(sum(end_offsets(_TARGET, settings.kafka).values()))
            if round_:
                timings[name].rates.append(2 * _RECORDS / seconds)
                timings[name].cpu.append(used)
    if len(rows) != 1:
        raise RuntimeError(f"the contenders wrote different numbers of rows: {sorted(rows)}")
    return timings


def _state_bytes(run: Run, settings: Settings) -> float:
    """Bytes per waiting visit in the checkpoint: without ads all visits wait."""
    with new_topic(_TARGET, _PARTITIONS, settings), _checkpoint() as folder:
        run(folder)
        files = (file for file in (folder / "state").rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files) / _RECORDS


@contextmanager
def _checkpoint() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "checkpoint"


def _fill(settings: Settings) -> None:
    """Write as many ads as visits; each is displayed on a visit's page, half of them too late."""
    random = Random(1)  # noqa: S311 - data, not secrets
    with RecordProducer(settings.kafka) as producer:
        for number in range(_RECORDS):
            page, seconds = f"page_{number % _PAGES}", number * _STEP_SECONDS
            visit = {"visit_id": f"visit-{number}", "event_time": _time_text(seconds), "page": page}
            visit["user_id"] = f"user-{number % 1000}"
            displayed = _time_text(seconds + random.random() * _LATEST_AD_SECONDS)
            ad = {"page": page, "display_time": displayed, "campaign_name": "supermarket"}
            producer.send(_VISITS, json.dumps(visit).encode(), visit["visit_id"].encode())
            producer.send(_ADS, json.dumps(ad).encode(), page.encode())


def _time_text(seconds: float) -> str:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    return (start + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
