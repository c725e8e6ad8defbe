"""Measures rows in the same pass as an action or a streaming query, with Spark's `observe`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from headwater.errors import ExpectationFailedError, InputError
from headwater.openlineage.events import DatasetName
from headwater.openlineage.run import LineageRun
from headwater.settings import Settings, load
from headwater.spark.compat import observed_metrics
from headwater.spark.measures.expectation import Expectation
from headwater.spark.measures.quality_columns import (
    SKETCH_LOG2,
    aggregates,
    check_expectations,
    condition,
    measured_columns,
)
from headwater.spark.measures.quality_facets import facets_of
from headwater.spark.measures.quality_report import Report, key
from headwater.spark.session import own_class, refuse_connect

_NAME = re.compile(r"[\w][\w .:/@-]{0,199}")
_MARK = "headwater-expectation"
_VIOLATION = re.compile(rf"\[{_MARK} (.+?)#(\d+)\]")
# Spark reports the metrics of an action in another thread, shortly after its end.
_WAIT_SECONDS = 5.0
_POLL_SECONDS = 0.01


class Quality:
    """Counts, bounds and expectations of the rows of one DataFrame, batch or streaming.

    Args:
        name: names the rows in reports and the metrics in Spark's progress.
        expectations: created by `not_null`, `in_range`, `matches`, `in_set` and `satisfies`.
        columns: columns to measure. Default: the first `HEADWATER_QUALITY__MAX_COLUMNS`.
        dataset: the dataset of the rows. Default in a streaming query: its output.
    """

    def __init__(
        self,
        name: str,
        expectations: Sequence[Expectation] = (),
        *,
        columns: Sequence[str] | None = None,
        dataset: DatasetName | None = None,
        settings: Settings | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"invalid name for measured rows: {name!r}",
                hint="use letters, digits, spaces and `_.:/@-`, at most 200 characters",
            )
        self.name = name
        self.expectations = tuple(expectations)
        self.dataset = dataset
        self._columns = columns
        self._settings = settings or load()
        self._report: Report | None = None
        self._observation: Observation | None = None
        self._counter: Any = None

    def measure(self, rows: DataFrame) -> DataFrame:
        """The same rows, which are measured by the action that reads all of them.

        A row that violates an expectation of severity `fail` stops the write; what has been
        written by then is described in docs/guides/quality.md.

        Raises:
            InputError: a column is missing, an expectation can't be evaluated, or the rows are of
                Spark Connect.
            NotInstalledError: Headwater's jar is not on Spark's class path.
        """
        refuse_connect(rows)
        if self._report is not None:
            raise InputError(
                f"{self.name!r} already measures other rows",
                hint="create a `Quality` for each DataFrame",
            )
        check_expectations(self.expectations, rows)
        limits = self._settings.quality
        columns, left = measured_columns(
            rows, self._columns, limits.max_columns, distinct=limits.distinct_counts
        )
        self._report = Report(self.name, columns, self.expectations, left)
        sketches = sum(column.distinct for column in columns)
        counter = own_class("quality.DistinctCounts")
        self._counter = counter(sketches, SKETCH_LOG2) if sketches else None
        metrics = aggregates(rows, columns, self.expectations)
        if rows.isStreaming:
            observed = rows.observe(self.metric, *metrics)
        else:
            self._observation = Observation(self.metric)
            observed = rows.observe(self._observation, *metrics)
        guard = self._guard(rows)
        # Spark moves no filter below `observe`: below a join the guard would check rows that are
        # not written.
        return observed if guard is None else observed.where(guard)

    @property
    def metric(self) -> str:
        """The name of the metrics in Spark's progress."""
        return f"headwater.quality.{self.name}"

    def add_progress(self, progress: Mapping[str, Any]) -> None:
        """Add the metrics of a micro-batch from its progress as JSON; can be used as `on_batch`."""
        metrics = (progress.get("observedMetrics") or {}).get(self.metric)
        if metrics is not None:
            self._add(metrics)

    def report(self) -> Report:
        """The results so far; for a batch DataFrame, after its action.

        Raises:
            InputError: `measure` was not called.
        """
        if self._report is None:
            raise InputError(f"{self.name!r} measures no rows", hint="call `measure` first")
        if self._observation is not None and not self._report.measured:
            self._take_observation(self._observation)
        return self._report

    def add_facets(self, run: LineageRun, dataset: DatasetName) -> None:
        """Add the results as facets of a dataset that the run reads or writes."""
        for name, facet in facets_of(self.report()).items():
            run.add_dataset_facet(dataset, name, facet)

    def failure(self, error: BaseException | str) -> ExpectationFailedError | None:
        """The error to raise instead, if a row violated an expectation of severity `fail`."""
        match = _VIOLATION.search(str(error))
        if self._report is None or match is None or match[1] != self.name:
            return None
        number = int(match[2])
        self._report.stopped_by = number
        expectation = self.expectations[number]
        return ExpectationFailedError(
            f"{self.name}: a row violates {expectation.text}; the write was stopped",
            hint="fix the rows, or only count them with severity='warn'",
            quality=self.name,
            expectation=expectation.text,
        )

    def _guard(self, rows: DataFrame) -> Column | None:
        guard: Column | None = None
        for number, expectation in enumerate(self.expectations):
            if expectation.severity != "fail":
                continue
            # Without values of the row, because errors are logged and sent.
            text = f"a row violates {expectation.text} [{_MARK} {self.name}#{number}]"
            violated = ~condition(expectation, rows)
            stop = F.raise_error(F.lit(text))
            guard = F.when(violated, stop) if guard is None else guard.when(violated, stop)
        return None if guard is None else guard.otherwise(F.lit(True))

    def _take_observation(self, observation: Observation) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while (metrics := observed_metrics(observation)) is None:
            if self._report is None or self._report.stopped_by is not None:
                return
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_SECONDS)
        self._add(metrics)

    def _add(self, metrics: Mapping[str, Any]) -> None:
        assert self._report is not None  # noqa: S101 - checked by the callers
        self._report.add(metrics)
        if self._counter is not None:
            columns = enumerate(self._report.columns)
            keys = [key("c", number, "sketch") for number, each in columns if each.distinct]
            sketches = ",".join(metrics.get(name) or "" for name in keys)
            self._report.add_distinct(list(self._counter.add(sketches)))


@contextmanager
def enforced(*qualities: Quality) -> Iterator[None]:
    """Raise an `ExpectationFailedError` if a row makes the action in the body fail.

    Raises:
        ExpectationFailedError: a row violated an expectation of severity `fail`.
    """
    try:
        yield
    except Exception as error:
        for quality in qualities:
            failure = quality.failure(error)
            if failure is not None:
                raise failure from error
        raise


@contextmanager
def read_once(batch: DataFrame) -> Iterator[DataFrame]:
    """For `foreachBatch`: measure rows once that are read several times, such as by a MERGE.

    They are cached in memory, or on disk, until the body ends.
    """
    cached = batch.persist()
    try:
        yield cached
    finally:
        cached.unpersist()
