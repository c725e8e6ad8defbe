"""What lineage costs a batch job: the shipped one, with and without, in turn.

Each run is a process of its own, as a user's job is: Spark's start is left out, the loading of the
listener and the delivery of the last event are not. The catalog is there and gets the events.
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

from headwater.bench.result import Figure
from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import create_spark_session_with_lineage, finish_lineage
from headwater.errors import CheckFailedError
from headwater.generator import generate
from headwater.jobs.articles import FIELDS
from headwater.jobs.batch_write_raw_with_lineage import NAME, write_articles
from headwater.service import up
from headwater.settings import Settings, child_environment, load
from headwater.spark import create_session

_RUNS = 20
_SHORTEST_SECONDS = 20.0
# So many take somewhat more than that on two cores; found by trial, then scaled to the machine.
_ARTICLES = 265_000
_FILES = 8
_WITH, _WITHOUT = "with", "without"
_CHILD_SECONDS = 600


@dataclass(frozen=True)
class _Run:
    """One run of the job: its wall and CPU time, and the most memory that it had."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def batch_figures(settings: Settings) -> list[Figure]:
    """Of at least 20 runs each; fewer and shorter ones with `testing.bench_share`."""
    for _ in up(["catalog"], settings):
        pass
    share = settings.testing.bench_share
    repeats = max(2, round(_RUNS * share))
    with tempfile.TemporaryDirectory(prefix="bench-openlineage-") as folder:
        _write_files(Path(folder), int(_ARTICLES * share))
        # Warms the disk's cache, and says whether the job is long enough.
        first = _child(_WITHOUT, Path(folder), settings)
        if share == 1 and first.seconds < _SHORTEST_SECONDS:
            _write_files(Path(folder), int(_ARTICLES * _SHORTEST_SECONDS * 1.2 / first.seconds))
        runs: dict[str, list[_Run]] = {_WITH: [], _WITHOUT: []}
        for number in range(repeats):
            order = (_WITH, _WITHOUT) if number % 2 else (_WITHOUT, _WITH)
            for mode in order:
                runs[mode].append(_child(mode, Path(folder), settings))
    return _figures(runs)


def _figures(runs: dict[str, list[_Run]]) -> list[Figure]:
    ratios = [
        one.seconds / other.seconds for one, other in zip(runs[_WITH], runs[_WITHOUT], strict=True)
    ]
    seconds = {mode: statistics.median(run.seconds for run in each) for mode, each in runs.items()}
    cpu = {mode: statistics.median(run.cpu_seconds for run in each) for mode, each in runs.items()}
    memory = {mode: statistics.median(run.peak_mb for run in each) for mode, each in runs.items()}
    ratio = seconds[_WITH] / seconds[_WITHOUT]
    return [
        Figure("batch: wall time with lineage / without", round(ratio, 4), "", at_most=1.03),
        Figure("batch: the same, median of pairs", round(statistics.median(ratios), 4), ""),
        Figure("batch: job without lineage", round(seconds[_WITHOUT], 2), "s"),
        Figure("batch: job with lineage", round(seconds[_WITH], 2), "s"),
        Figure("batch: CPU without lineage", round(cpu[_WITHOUT], 2), "s"),
        Figure("batch: CPU with lineage", round(cpu[_WITH], 2), "s"),
        Figure("batch: runs of each", len(ratios), ""),
        Figure("batch: extra memory", round(memory[_WITH] - memory[_WITHOUT], 1), "MiB"),
        Figure("batch: memory without lineage", round(memory[_WITHOUT], 1), "MiB"),
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
    found = json.loads(done.stdout.splitlines()[-1])
    return _Run(**found)


def _run(mode: str, files: str) -> None:
    """In the child: the job once, on a table of its own."""
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
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _cpu_seconds() -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _own_processes())


def _peak_mb(process: psutil.Process) -> float:
    """The most that the process has had resident."""
    status = Path(f"/proc/{process.pid}/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    # Elsewhere than on Linux what it has now.
    return float(process.memory_info().rss) / 2**20


if __name__ == "__main__":
    _run(*sys.argv[1:])
