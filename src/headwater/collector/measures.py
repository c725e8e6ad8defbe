"""What is told of a run besides its records: the quality of rows, and its cost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark import SparkContext

from headwater.errors import HeadwaterError
from headwater.openlineage.events import DatasetName
from headwater.openlineage.run import LineageRun
from headwater.quality import Quality
from headwater.settings import Settings
from headwater.spark.measures.cost_meter import CostMeter

_LOG = logging.getLogger(__name__)


class Measures:
    """Of one run of a streaming query. What goes wrong here costs facets, never the query."""

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
        # Not the session: Spark's listeners are called in threads that have none.
        context = SparkContext._active_spark_context  # noqa: SLF001
        try:
            return CostMeter(context, self._run.run_id, settings) if context is not None else None
        except Exception as error:
            reason = error.message if isinstance(error, HeadwaterError) else repr(error)
            _LOG.warning("cost is not measured: %s", reason)
            return None

    @contextmanager
    def counting(self, *, queries: bool = True) -> Iterator[None]:
        """What the body starts in this thread is counted; streaming queries only if asked for."""
        marked = ExitStack()
        if self._meter is not None:
            with self._safely():
                marked.enter_context(self._meter.counting(queries=queries))
        try:
            yield
        finally:
            with self._safely():
                marked.close()

    def add(self, progress: Mapping[str, Any]) -> None:
        """A micro-batch that is done."""
        with self._safely(), self._access:
            for quality in self._quality:
                quality.add_progress(progress)

    def tell(self, *, settled: bool = False) -> None:
        """Put what is known by now onto the run's next event."""
        with self._safely(), self._access:
            for quality in self._quality:
                dataset = quality.dataset or self._output
                if dataset is not None:
                    quality.tell(self._run, dataset)
                self._log_broken(quality)
        with self._safely():
            if self._meter is not None:
                self._meter.tell(self._run, settled=settled)

    def written(self) -> tuple[int | None, int | None]:
        """Rows and bytes to files, since the run began; None where Spark tells of none."""
        with self._safely():
            if self._meter is not None:
                usage = self._meter.usage()
                return usage.records_written or None, usage.bytes_written or None
        return None, None

    def end(self, error: BaseException | str | None) -> None:
        """The same for the last event."""
        if error is not None:
            with self._safely():
                for quality in self._quality:
                    # Notes the expectation that ended the query, if one did.
                    quality.failure(error)
        self.tell(settled=True)

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
        for expectation, outcome in report.broken():
            # Once: how many they are by now is in the events.
            place = f"{report.name}: {expectation.text}"
            if place not in self._logged:
                self._logged.add(place)
                rows = f"{outcome.broken} of {report.rows} rows"
                _LOG.warning("%s: %s break %s", report.name, rows, expectation.text)
