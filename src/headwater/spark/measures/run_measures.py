"""Quality, resource usage and cost of a run.

A listener in the JVM (`java/`) adds up the tasks of each run and job group, so that several queries
in one session are separated. It counts from the first `CostMeter` of a session on. Reading it is
one call and starts no Spark job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError
from headwater.openlineage.events import DatasetName
from headwater.openlineage.facets import Facet, own
from headwater.openlineage.run import LineageRun
from headwater.quality import Quality
from headwater.settings import Settings
from headwater.spark.session import own_class, refuse_connect

FACET = "headwater_cost"

_SECONDS_PER_HOUR = 3600
# Decimal, as cloud providers count.
_GB = 10**9
# Decimal places: a micro-batch costs less than a cent.
_PLACES = Decimal("0.000001")
# Local properties that the listener reads.
_RUN = "headwater.cost.run"
_BATCH_RUN = "headwater.cost.batch-run"
# Spark notifies its listeners after the end of a task, in another thread.
_WAIT_MILLIS = 2000


@dataclass(frozen=True)
class Usage:
    """Totals of tasks, including failed ones; in the order of the listener's fields."""

    tasks: int = 0
    failed_tasks: int = 0
    core_millis: int = 0
    cpu_nanos: int = 0
    gc_millis: int = 0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    shuffle_bytes_read: int = 0
    shuffle_bytes_written: int = 0
    spilled_bytes: int = 0
    # The maximum of a task, not a total.
    peak_task_memory: int = 0

    @classmethod
    def from_listener(cls, values: Sequence[int]) -> Usage:
        """From the fields of the listener."""
        return cls(*values)

    @property
    def core_seconds(self) -> float:
        return self.core_millis / 1000

    @property
    def shuffled_bytes(self) -> int:
        """Shuffle bytes written, so that each byte counts once."""
        return self.shuffle_bytes_written


def money(usage: Usage, settings: Settings) -> Decimal | None:
    """The cost at the configured prices; None if all prices are zero."""
    prices = settings.cost
    parts = (
        (prices.per_core_hour, Decimal(usage.core_millis) / 1000 / _SECONDS_PER_HOUR),
        (prices.per_gb_read, Decimal(usage.bytes_read) / _GB),
        (prices.per_gb_written, Decimal(usage.bytes_written) / _GB),
        (prices.per_gb_shuffled, Decimal(usage.shuffled_bytes) / _GB),
    )
    if not any(price for price, _ in parts):
        return None
    return sum((price * amount for price, amount in parts), Decimal(0)).quantize(_PLACES)


def cost_facet(usage: Usage, settings: Settings) -> Facet:
    """The run facet `headwater_cost`."""
    return own(
        "CostRunFacet",
        "1-0-0",
        tasks=usage.tasks,
        failedTasks=usage.failed_tasks,
        coreSeconds=usage.core_seconds,
        cpuSeconds=round(usage.cpu_nanos / 1e9, 3),
        gcSeconds=usage.gc_millis / 1000,
        bytesRead=usage.bytes_read,
        recordsRead=usage.records_read,
        bytesWritten=usage.bytes_written,
        recordsWritten=usage.records_written,
        shuffleBytesRead=usage.shuffle_bytes_read,
        shuffleBytesWritten=usage.shuffle_bytes_written,
        spilledBytes=usage.spilled_bytes,
        peakTaskMemoryBytes=usage.peak_task_memory,
        money=_money(usage, settings),
    )


def _money(usage: Usage, settings: Settings) -> Facet | None:
    amount = money(usage, settings)
    if amount is None:
        return None
    prices = settings.cost
    # With the prices, as they may change later.
    return {
        "amount": float(amount),
        "currency": prices.currency,
        "perCoreHour": float(prices.per_core_hour),
        "perGbRead": float(prices.per_gb_read),
        "perGbWritten": float(prices.per_gb_written),
        "perGbShuffled": float(prices.per_gb_shuffled),
    }


class CostMeter:
    """The cost of one run.

    Args:
        owner: the id of the run or of a job group, such as the `runId` of a streaming query.
            Must be unique for each start of a run.
    """

    def __init__(self, spark: SparkSession | SparkContext, owner: str, settings: Settings) -> None:
        """
        Raises:
            InputError: it is a session of Spark Connect.
            NotInstalledError: Headwater's jar is not on Spark's class path.
        """
        refuse_connect(spark)
        self._context: Any = spark if isinstance(spark, SparkContext) else spark.sparkContext
        self._owner = owner
        self._settings = settings
        self._listener = own_class("cost.CostListener").of(self._context._jsc.sc())  # noqa: SLF001

    @contextmanager
    def counting(self, *, queries: bool = True) -> Iterator[None]:
        """Count jobs that the body starts in this thread.

        Args:
            queries: count streaming queries that it starts, too; if not, each is a separate run.
        """
        stop = self.begin_counting(queries=queries)
        try:
            yield
        finally:
            stop()

    def begin_counting(self, *, queries: bool = True) -> Callable[[], None]:
        """Count jobs that this thread starts until the returned function is called in it."""
        name = _RUN if queries else _BATCH_RUN
        previous = self._context.getLocalProperty(name)
        self._context.setLocalProperty(name, self._owner)

        def stop() -> None:
            # The user may have stopped the session.
            if self._context._jsc is not None:  # noqa: SLF001
                self._context.setLocalProperty(name, previous)

        return stop

    def usage(self, *, settled: bool = False) -> Usage:
        """The usage so far.

        Args:
            settled: first wait as `settle` does.
        """
        if settled:
            self.settle()
        return Usage.from_listener(list(self._listener.usage(self._owner)))

    def settle(self) -> bool:
        """Wait up to two seconds until the listener has received all tasks that ended; returns
        whether it has."""
        return bool(self._listener.settle(_WAIT_MILLIS))

    def add_facet(self, run: LineageRun, *, settled: bool = False) -> None:
        """Add the cost as a facet to the next events of the run."""
        run.add_run_facet(FACET, cost_facet(self.usage(settled=settled), self._settings))


_LOG = logging.getLogger(__name__)


class RunMeasures:
    """Quality and cost of one run. Errors cost facets and never propagate to the query."""

    def __init__(
        self,
        run: LineageRun,
        quality: Sequence[Quality],
        output: DatasetName | None,
        settings: Settings,
    ) -> None:
        self._run = run
        self._quality = quality
        self._output = output
        self._logged: set[str] = set()
        self._access = threading.Lock()
        self._meter = self._new_meter(settings)

    def _new_meter(self, settings: Settings) -> CostMeter | None:
        # The context, as the threads that call Spark's listeners have no active session.
        context = SparkContext._active_spark_context  # noqa: SLF001
        try:
            return CostMeter(context, self._run.run_id, settings) if context is not None else None
        except Exception as error:
            reason = error.message if isinstance(error, HeadwaterError) else repr(error)
            _LOG.warning("cost is not measured: %s", reason)
            return None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the Spark jobs and queries that the body starts in this thread."""
        stop = self.begin_counting(queries=True)
        try:
            yield
        finally:
            stop()

    def begin_counting(self, *, queries: bool) -> Callable[[], None]:
        """Count the Spark jobs that this thread starts, with or without `queries`, until the
        returned function is called in it."""
        stops: list[Callable[[], None]] = []
        if self._meter is not None:
            with self._safely():
                stops.append(self._meter.begin_counting(queries=queries))

        def stop() -> None:
            with self._safely():
                while stops:
                    stops.pop()()

        return stop

    def add(self, progress: Mapping[str, Any]) -> None:
        """Add a completed micro-batch."""
        with self._safely(), self._access:
            for quality in self._quality:
                quality.add_progress(progress)

    def report(self, *, settled: bool = False) -> None:
        """Add the current values to the run's next event."""
        with self._safely(), self._access:
            for quality in self._quality:
                dataset = quality.dataset or self._output
                if dataset is not None:
                    quality.add_facets(self._run, dataset)
                self._log_broken(quality)
        with self._safely():
            if self._meter is not None:
                self._meter.add_facet(self._run, settled=settled)

    def written(self) -> tuple[int | None, int | None]:
        """Rows and bytes that the run has written to files; None if Spark reports none."""
        with self._safely():
            if self._meter is not None:
                usage = self._meter.usage()
                return usage.records_written or None, usage.bytes_written or None
        return None, None

    def end(self, error: BaseException | str | None) -> None:
        """Add the final values to the last event."""
        if error is not None:
            with self._safely():
                for quality in self._quality:
                    # Records the expectation that failed the query, if one did.
                    quality.failure(error)
        self.report(settled=True)

    @contextmanager
    def _safely(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            trouble = f"quality or cost can't be reported: {type(error).__name__}: {error}"
            if trouble not in self._logged:
                self._logged.add(trouble)
                _LOG.warning(trouble)

    def _log_broken(self, quality: Quality) -> None:
        report = quality.report()
        for expectation, result in report.violated():
            # Once: the events have the current counts.
            broken = f"{report.name}: {expectation.text}"
            if broken not in self._logged:
                self._logged.add(broken)
                rows = f"{result.violations} of {report.rows} rows"
                _LOG.warning("%s: %s break %s", report.name, rows, expectation.text)
