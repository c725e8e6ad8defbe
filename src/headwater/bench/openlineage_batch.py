"""The cost of lineage in a batch job: the shipped one with and without it, alternating.

Each run is a separate process. The time excludes the start of Spark, and includes the loading of
the listener and the delivery of the last event to a running catalog.
"""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from headwater.bench.result import Measurement
from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import create_spark_session_with_lineage, finish_lineage
from headwater.errors import CheckFailedError
from headwater.generator import generate
from headwater.jobs.articles import FIELDS
from headwater.jobs.batch_write_raw_with_lineage import NAME, write_articles
from headwater.service import up
from headwater.settings import Settings, child_environment, load
from headwater.spark.session import create_session

_RUNS = 20
_MIN_SECONDS = 20.0
# Takes slightly longer than that on two cores; scaled to the machine if it does not.
_ARTICLES = 265_000
_FILES = 8
_WITH, _WITHOUT = "with", "without"
_CHILD_SECONDS = 600


@dataclass(frozen=True)
class _Run:
    """One run of the job: wall time, CPU time and peak memory."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def batch_measurements(settings: Settings) -> list[Measurement]:
    """Medians of 20 runs each; fewer and shorter ones with `testing.bench_share`."""
    for _ in up(["catalog"], settings):
        pass
    share = settings.testing.bench_share
    repeats = max(2, round(_RUNS * share))
    with tempfile.TemporaryDirectory(prefix="bench-openlineage-") as folder:
        _write_files(Path(folder), int(_ARTICLES * share))
        # Warms the disk cache, and shows whether the job is long enough.
        first = _child(_WITHOUT, Path(folder), settings)
        if share == 1 and first.seconds < _MIN_SECONDS:
            _write_files(Path(folder), int(_ARTICLES * _MIN_SECONDS * 1.2 / first.seconds))
        runs: dict[str, list[_Run]] = {_WITH: [], _WITHOUT: []}
        for number in range(repeats):
            order = (_WITH, _WITHOUT) if number % 2 else (_WITHOUT, _WITH)
            for mode in order:
                runs[mode].append(_child(mode, Path(folder), settings))
    return _measurements(runs)


def _measurements(runs: dict[str, list[_Run]]) -> list[Measurement]:
    ratios = [on.seconds / off.seconds for on, off in zip(runs[_WITH], runs[_WITHOUT], strict=True)]
    seconds = {mode: statistics.median(run.seconds for run in each) for mode, each in runs.items()}
    cpu = {mode: statistics.median(run.cpu_seconds for run in each) for mode, each in runs.items()}
    memory = {mode: statistics.median(run.peak_mb for run in each) for mode, each in runs.items()}
    ratio = seconds[_WITH] / seconds[_WITHOUT]
    return [
        Measurement("batch: wall time with lineage / without", round(ratio, 4), "", at_most=1.03),
        Measurement(
            "batch: wall time ratio, median of pairs", round(statistics.median(ratios), 4), ""
        ),
        Measurement("batch: job without lineage", round(seconds[_WITHOUT], 2), "s"),
        Measurement("batch: job with lineage", round(seconds[_WITH], 2), "s"),
        Measurement("batch: CPU without lineage", round(cpu[_WITHOUT], 2), "s"),
        Measurement("batch: CPU with lineage", round(cpu[_WITH], 2), "s"),
        Measurement("batch: runs of each", len(ratios), ""),
        Measurement("batch: extra memory", round(memory[_WITH] - memory[_WITHOUT], 1), "MiB"),
        Measurement("batch: memory without lineage", round(memory[_WITHOUT], 1), "MiB"),
    ]


def _write_files(folder: Path, count: int) -> None:
    writers = []
    for number in range(_FILES):
        file = (folder / f"{number}.csv").open("w", newline="", encoding="utf-8")
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writers.append((file, writer))
    for number, (_, value) in enumerate(generate("articles", count, seed=296)):
        article = json.loads(value)
        writers[number % _FILES][1].writerow([article[name] for name in FIELDS])
    for file, _ in writers:
        file.close()


def _child(mode: str, folder: Path, settings: Settings) -> _Run:
    done = subprocess.run(
        [sys.executable, "-m", "headwater.bench.openlineage_batch", mode, f"{folder}/*.csv"],
        capture_output=True,
        text=True,
        timeout=_CHILD_SECONDS,
        check=False,
        env=child_environment(
            HEADWATER_HOME=str(settings.home_dir),
            MARQUEZ_URL=settings.catalog_url,
            HEADWATER_SPARK__LOG_LEVEL="ERROR",
        ),
    )
    if done.returncode != 0:
        raise CheckFailedError(f"the job {mode} lineage failed: {done.stderr.strip()[-2000:]}")
    return _Run(**json.loads(done.stdout.splitlines()[-1]))


def _run(mode: str, files: str) -> None:
    """In the child process: run the job once, on a new table."""
    settings = load()
    table = f"{settings.iceberg.catalog}.bench.articles"
    if mode == _WITH:
        spark = create_spark_session_with_lineage(
            f"{NAME}Bench", settings=settings, connectors=("iceberg",)
        )
    else:
        spark = create_session(f"{NAME}Bench", settings, connectors=("iceberg",))
    spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
    began, used = time.monotonic(), _cpu_seconds()
    add_lineage_metadata(spark, source_system="files", target_system="iceberg")
    write_articles(spark, settings, files=files, table=table, one_line_each=True)
    finish_lineage()
    seconds = time.monotonic() - began
    used = _cpu_seconds() - used
    peak = sum(_peak_mb(process) for process in _own_processes())
    spark.sql(f"DROP TABLE {table} PURGE")
    print(json.dumps({"seconds": seconds, "cpu_seconds": used, "peak_mb": peak}))


def _own_processes() -> list[psutil.Process]:
    process = psutil.Process()
    return [process, *process.children(recursive=True)]


def _cpu_seconds() -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _own_processes())


def _peak_mb(process: psutil.Process) -> float:
    """The peak resident memory of the process."""
    status = Path(f"/proc/{process.pid}/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    # The current value on other systems than Linux.
    return float(process.memory_info().rss) / 2**20


if __name__ == "__main__":
    _run(*sys.argv[1:])
