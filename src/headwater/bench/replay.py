"""The rate of a replay, compared with the streaming job with the same transform.

Both start with a running session and end when Kafka has acknowledged the last record; the replay
also includes planning, checking the archive and writing the manifest.
"""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from headwater.bench.copying import Copy, new_topic, time_copies
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.job import LineageJob
from headwater.jobs.data_synchronization_job import main as archive_job
from headwater.jobs.shared_job_logic import VISITS_CONVERTER
from headwater.kafka import RecordProducer
from headwater.replay.operation import replay
from headwater.replay.request import Request
from headwater.replay.selection import EARLIEST, LATEST, Selection
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.session import create_session

_RECORDS = 400_000
_PARTITIONS = 2
_REPEATS = 5
_SOURCE, _TARGET = "bench-replay-source", "bench-replay-target"
# 100,000 clicks per hour.
_BETWEEN = timedelta(milliseconds=36)
_START = datetime(2025, 9, 4, 7)  # noqa: DTZ001 - the times of clicks have no time zone
_STREAMING, _REPLAY = "visits_converter_streaming_job", "replay of the same records"


def measure(settings: Settings) -> BenchResult:
    """The ratio of records per second; with CPU seconds of driver and JVM."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("replay", _REPEATS)
    with new_topic(_SOURCE, _PARTITIONS, settings), tempfile.TemporaryDirectory() as folder:
        archive = settings.archive.model_copy(update={"folder": Path(folder) / "archive"})
        settings = settings.model_copy(update={"archive": archive})
        _fill(settings, Path(folder))
        contenders = {_STREAMING: _streaming(settings), _REPLAY: _replaying(settings)}
        timings = time_copies(
            contenders, _TARGET, _RECORDS, settings, partitions=_PARTITIONS, repeats=_REPEATS
        )
    ratio = timings[_REPLAY].rate / timings[_STREAMING].rate
    result.measurements.append(
        Measurement(f"replay / {_STREAMING}", round(ratio, 3), "", at_least=0.9)
    )
    for name, timing in timings.items():
        result.measurements += timing.measurements(name, _RECORDS)
    result.machine = machine_now(load)
    return result


def _fill(settings: Settings, folder: Path) -> None:
    """Write clicks, evenly distributed over the partitions, and archive them."""
    create_session("bench_replay", settings, connectors=("kafka", "delta"))
    with RecordProducer(settings.kafka) as producer:
        for number in range(_RECORDS):
            producer.send(
                _SOURCE, _click(number), b"%d" % (number // 10), partition=number % _PARTITIONS
            )
    options = ["--input-topic", _SOURCE, "--checkpoint", str(folder / "checkpoint")]
    archive_job.main(["--available-now", "--quiet", *options], standalone_mode=False, obj=settings)


def _click(number: int) -> bytes:
    """A click like those of `generate clicks`, but many per hour instead of one per minute: the
    archive has at least one file per hour."""
    time = (_START + number * _BETWEEN).isoformat(timespec="microseconds")
    content = f'"event_id": "click-{number}", "visit_id": {number // 10}, "event_time": "{time}"'
    return f'{{{content}, "page": "page_{number % 20}"}}'.encode()


def _streaming(settings: Settings) -> Copy:
    def run(folder: Path) -> None:
        job = LineageJob(VISITS_CONVERTER.job_name, settings=settings, checkpoint=folder)
        rows = VISITS_CONVERTER.function(job.read(_SOURCE))
        job.write(rows, _TARGET, trigger={"availableNow": True})

    return run


def _replaying(settings: Settings) -> Copy:
    def run(folder: Path) -> None:
        # An empty home, in which no replay has been done.
        isolated = settings.model_copy(update={"home": folder})
        all_offsets = dict.fromkeys(range(_PARTITIONS), ((EARLIEST, LATEST),))
        request = Request(
            name=VISITS_CONVERTER.job_name,
            transform=VISITS_CONVERTER,
            selection=Selection(_SOURCE, all_offsets),
            job_version=settings.jobs.version,
            target=_TARGET,
        )
        replay(request, isolated, lambda: create_session("bench_replay", isolated))

    return run
