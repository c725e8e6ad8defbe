"""How fast archived records are replayed, against the streaming job with the same logic.

Both begin with a session that runs and end when Kafka has acknowledged the last record; a replay
also plans, checks what is archived and keeps its manifest in that time.
"""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from headwater.bench.copying import Copy, new_topic, time_copies
from headwater.bench.result import BenchResult, Figure, load_now, machine_now
from headwater.job import LineageJob
from headwater.jobs.data_synchronization_job import main as archive_job
from headwater.jobs.shared_job_logic import VISITS_CONVERTER
from headwater.kafka import RecordProducer
from headwater.replay.operation import replay
from headwater.replay.planning import Request
from headwater.replay.selection import EARLIEST, LATEST, Selection
from headwater.service import up
from headwater.settings import Settings
from headwater.spark import create_session

_RECORDS = 400_000
_PARTITIONS = 2
_REPEATS = 5
_SOURCE, _TARGET = "bench-replay-source", "bench-replay-target"
# An hour holds 100,000 of them.
_BETWEEN = timedelta(milliseconds=36)
_START = datetime(2025, 9, 4, 7)  # noqa: DTZ001 - the times of clicks name no zone
_STREAMING, _REPLAY = "visits_converter_streaming_job", "replay of the same records"


def measure(settings: Settings) -> BenchResult:
    """The ratio of records per second; CPU seconds of driver and JVM beside it."""
    load = load_now()
    for _ in up(["kafka"], settings):
        pass
    result = BenchResult("replay", _REPEATS)
    with new_topic(_SOURCE, _PARTITIONS, settings), tempfile.TemporaryDirectory() as place:
        folder = settings.archive.model_copy(update={"folder": Path(place) / "archive"})
        settings = settings.model_copy(update={"archive": folder})
        _fill(settings, Path(place))
        contenders = {_STREAMING: _streaming(settings), _REPLAY: _replaying(settings)}
        timings = time_copies(
            contenders, _TARGET, _RECORDS, settings, partitions=_PARTITIONS, repeats=_REPEATS
        )
    ratio = timings[_REPLAY].rate / timings[_STREAMING].rate
    result.figures.append(Figure(f"replay / {_STREAMING}", round(ratio, 3), "", at_least=0.9))
    for name, timing in timings.items():
        result.figures += timing.figures(name, _RECORDS)
    result.machine = machine_now(load)
    return result


def _fill(settings: Settings, place: Path) -> None:
    """Clicks, as many in each partition, and their archive."""
    create_session("bench_replay", settings, connectors=("kafka", "delta"))
    with RecordProducer(settings.kafka) as producer:
        for number in range(_RECORDS):
            producer.send(
                _SOURCE, _click(number), b"%d" % (number // 10), partition=number % _PARTITIONS
            )
    options = ["--input-topic", _SOURCE, "--checkpoint", str(place / "checkpoint")]
    archive_job.main(["--available-now", "--quiet", *options], standalone_mode=False, obj=settings)


def _click(number: int) -> bytes:
    """As `generate clicks` makes them, but many in an hour and not one a minute: the archive has
    a file for each hour at least."""
    time = (_START + number * _BETWEEN).isoformat(timespec="microseconds")
    content = f'"event_id": "click-{number}", "visit_id": {number // 10}, "event_time": "{time}"'
    return f'{{{content}, "page": "page_{number % 20}"}}'.encode()


def _streaming(settings: Settings) -> Copy:
    def run(place: Path) -> None:
        job = LineageJob(VISITS_CONVERTER.job_name, settings=settings, checkpoint=place)
        rows = VISITS_CONVERTER.function(job.read(_SOURCE))
        job.write(rows, _TARGET, trigger={"availableNow": True})

    return run


def _replaying(settings: Settings) -> Copy:
    def run(place: Path) -> None:
        # A home of its own, in which no replay has been done.
        own = settings.model_copy(update={"home": place})
        everything = dict.fromkeys(range(_PARTITIONS), ((EARLIEST, LATEST),))
        request = Request(
            name=VISITS_CONVERTER.job_name,
            logic=VISITS_CONVERTER,
            selection=Selection(_SOURCE, everything),
            job_version=settings.jobs.version,
            target=_TARGET,
        )
        replay(request, own, lambda: create_session("bench_replay", own))

    return run
