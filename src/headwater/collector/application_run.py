"""The run of an application, and how it ends.

The user's program is not changed: a `with` block or `finish_lineage` reports the end exactly;
otherwise it is observed, at the exit of Python or at the end of Spark's application.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from headwater.collector.application import APPLICATION_END, ApplicationLineage
from headwater.collector.listener import track_streaming
from headwater.collector.relay import Relay
from headwater.collector.reporter import StreamingRunReporter
from headwater.openlineage import Emitter, LineageRun
from headwater.openlineage import facets as make
from headwater.openlineage.events import VERSION, to_rfc3339
from headwater.openlineage.open_applications import OpenApplicationNote, end_killed_applications
from headwater.settings import Settings
from headwater.spark.measures.run_measures import RunMeasures
from headwater.spark.worker import run_apart

_LOG = logging.getLogger(__name__)

# After Spark's application end: a program that fails in a `finally` with `spark.stop()` exits with
# its error immediately.
_EXIT_SECONDS = 2.0


class Application:
    """The run of an application, from the creation of its session to its end.

    Args:
        on_spark_end: called before the run ends because Spark's application has ended.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        settings: Settings,
        emitter: Emitter,
        on_spark_end: Callable[[Application], object] = lambda application: None,
    ) -> None:
        self.spark = spark
        self.name = name
        self.settings = settings
        # Set in a `with` block, which reports the end.
        self.end_is_reported = False
        self._emitter = emitter
        self._on_spark_end = on_spark_end
        self._error_before = last_error()
        self._access = threading.Lock()
        self._end_begun, self._ended = threading.Event(), threading.Event()
        run = LineageRun.from_settings(settings, self._emitter.emit, name, str(uuid.uuid4()))
        run.add_job_facet("jobType", make.job_type("BATCH"))
        version = pyspark.__version__
        run.add_run_facet("processing_engine", make.processing_engine("spark", version, VERSION))
        began = datetime.now(UTC)
        note = self._note = OpenApplicationNote(settings)
        self.lineage = ApplicationLineage(
            run, began, on_start=lambda: note.write(run, to_rfc3339(began))
        )
        end_killed_applications(settings, emitter.emit)
        self._relay = Relay(spark, self._take)
        self._relay.start()
        self._measures = RunMeasures(run, (), None, settings)
        # Count the cost of this thread's work from now on. Not a context manager: at exit, Python
        # would close it, and call the JVM after an interrupt (`run_apart`).
        self._stop_counting = self._measures.begin_counting(queries=False)
        # Streaming queries are reported as separate runs.
        self._streams = track_streaming(spark, settings)
        if self._streams is not None:
            self._streams.application = name
        self._streaming = False
        self._queries_before = StreamingRunReporter.started

    @property
    def run(self) -> LineageRun:
        return self.lineage.run

    def is_streaming(self) -> None:
        """Mark the application as streaming: the runs of its queries report how they ended."""
        self._streaming = True
        interval = self.settings.lineage.interval_seconds
        self.run.add_job_facet("jobType", make.job_type("STREAMING", interval=interval))

    def _take(self, entry: Mapping[str, Any]) -> None:
        if entry.get("state") != APPLICATION_END:
            self.lineage.take(entry)
        elif not self.end_is_reported and not self._end_begun.wait(_EXIT_SECONDS):
            self._on_spark_end(self)
            self.end_as_observed()

    def end(self, error: BaseException | str | None) -> None:
        """Emit the last event and deliver events, both for a bounded time."""
        if error is None or isinstance(error, (str, Exception)):
            self.stop_counting()
        self._end(lambda: error)

    def end_as_observed(self) -> None:
        """End without a report: with the error that ended the program, or else as the writes did.

        Python has no exit code for other code to read, so an exit after successful writes counts
        as a success.
        """
        self._end(lambda: uncaught_error(self._error_before) or self.lineage.outcome_of_writes())

    def stop_counting(self) -> None:
        """Do not count later work of this thread; not after an interrupt (`run_apart`)."""
        self._stop_counting()

    def _end(self, error_of: Callable[[], BaseException | str | None]) -> None:
        with self._access:
            first = not self._end_begun.is_set()
            self._end_begun.set()
        if not first:
            # Another thread ends it; it may be waiting for this one.
            if not self._relay.is_current_thread:
                self._ended.wait(3 * self.settings.lineage.close_seconds)
            return
        seconds = self.settings.lineage.close_seconds
        if self._relay.is_current_thread:
            self._finish(error_of)
        else:
            # A signal may have interrupted a call of this thread to the JVM.
            run_apart(lambda: self._finish(error_of), 4 * seconds + _EXIT_SECONDS)
        self._ended.set()

    def _finish(self, error_of: Callable[[], BaseException | str | None]) -> None:
        self._relay.stop(self.settings.lineage.close_seconds)
        with suppress(Exception):  # The JVM may have exited.
            if self._streams is not None and not self.spark.streams.active:
                # `_relay.stop` has waited for Spark's events about ended queries.
                self.spark.streams.removeListener(self._streams)
                self._streams.stop()
        error = error_of()
        queries = StreamingRunReporter.started > self._queries_before
        if self._streaming and queries and not self.lineage.started:
            # The runs of the queries have reported it.
            error = None
        # Errors here must not affect the end of the job.
        for step in (
            lambda: self._measures.end(error),
            lambda: self.lineage.finish(error),
            self._note.clear,
            self._emitter.close,
        ):
            try:
                step()
            except Exception as trouble:
                _LOG.warning("the lineage of this run is incomplete: %s", type(trouble).__name__)


def last_error() -> BaseException | None:
    """The error for which Python has printed a stack trace last; never a SystemExit."""
    return getattr(sys, "last_value", None)


def uncaught_error(before: BaseException | None) -> BaseException | None:
    """The error that ends the program; None if there is none.

    Args:
        before: the `last_error` when the run began.
    """
    # An interactive session continues after an error.
    error = None if hasattr(sys, "ps1") else last_error()
    return None if error is before else error
