"""What is told of a streaming query, and when: the events of one run.

START comes with inputs, outputs and columns before the first batch; RUNNING at an interval, with
the records that were read and written since, and at once when there is a new input or output or
when a table that is written has another schema; in the end COMPLETE, ABORT (it was stopped) or
FAIL. All of it is told from a thread of its own: a micro-batch costs only the adding up of what
Spark says of it.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Concatenate, ParamSpec

import pyspark

from headwater.collector.description import Description, with_facets
from headwater.collector.measures import Measures
from headwater.collector.query import QueryDescription
from headwater.collector.schemas import OutputSchemas, SchemaOf
from headwater.collector.starting_offsets import first_offsets
from headwater.collector.topics import TopicNames
from headwater.openlineage import facets
from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import (
    VERSION,
    Dataset,
    name_of,
    to_rfc3339,
)
from headwater.openlineage.job_facets import described
from headwater.openlineage.open_runs import OpenRun, OpenRunNote
from headwater.openlineage.progress import StreamProgress
from headwater.openlineage.redaction import Redactor
from headwater.openlineage.run import LineageRun
from headwater.settings import Settings
from headwater.spark.query_runner import OnBatch, ThrottledCallback

_LOG = logging.getLogger(__name__)

# Of an error of Spark's, that it is one; its whole trace is of no use to a reader of lineage.
_MAX_TROUBLE = 1_000

P = ParamSpec("P")


def _never_raise(
    method: Callable[Concatenate[StreamingRunReporter, P], None],
) -> Callable[Concatenate[StreamingRunReporter, P], None]:
    """Lineage errors are logged and never propagate to the query."""

    @functools.wraps(method)
    def call(self: StreamingRunReporter, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            _LOG.warning(
                "the lineage of this run is incomplete: %s: %s", type(error).__name__, error
            )

    return call


class StreamingRunReporter:
    """Tells the events of one run of a streaming query."""

    # How many runs this process has begun to tell of.
    begun: ClassVar[int] = 0

    def __init__(
        self,
        query: QueryDescription,
        run_id: str,
        settings: Settings,
        emitter: Emitter,
        found: Description,
        schema_of: SchemaOf | None = None,
    ) -> None:
        self._query = query
        self._settings = settings
        self._emitter = emitter
        self._redact = Redactor.from_settings(settings)
        self._found = found
        self._run = LineageRun.from_settings(settings, emitter.emit, query.job_name, run_id)
        for name, facet in {**query.job_facets, **described(query.job_name)}.items():
            self._run.add_job_facet(name, facet)
        output = name_of(query.outputs[0]) if query.outputs else None
        self.measures = Measures(self._run, query.quality, output, settings)
        bound = settings.lineage.analysis_seconds
        started = functools.partial(first_offsets, query.checkpoint, bound)
        self._progress = StreamProgress(query.roles, started)
        servers = settings.bootstrap_servers
        self._inputs = TopicNames(found.inputs, found.bootstrap_servers or servers)
        self._outputs_by_topic = TopicNames(query.outputs, servers)
        self._topics = {name_of(each).name for each in (*found.inputs, *query.outputs)}
        self._schemas = OutputSchemas(self._outputs(), schema_of, query.whole)
        self._access = threading.Lock()
        # From putting ranges onto the next event until it is told: they are in one event only.
        self._telling = threading.Lock()
        self._over = threading.Event()
        self._failed = False
        self._news = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._tell_on, name="lineage-run", daemon=True)
        self._note = (
            OpenRunNote(query.checkpoint, settings) if query.checkpoint is not None else None
        )

    @_never_raise
    def start(self) -> None:
        """Tell of the start, and of the end of a run that was killed."""
        StreamingRunReporter.begun += 1
        run, interval = self._run, self._settings.lineage.interval_seconds
        self._end_killed_run()
        run.add_job_facet("jobType", facets.job_type("STREAMING", interval=interval))
        engine = facets.processing_engine("spark", pyspark.__version__, VERSION)
        run.add_run_facet("processing_engine", engine)
        run.add_run_facet("headwater_job", self._job_facet())
        self._add_gaps()
        run.start(self._found.inputs, self._outputs())
        if self._note is not None:
            at = to_rfc3339(datetime.now(UTC))
            self._note.write(OpenRun(run.run_id, run.job_namespace, run.job_name, at))
        self._thread.start()

    def behind(self, on_batch: OnBatch | None) -> OnBatch:
        """Takes every micro-batch first, and hands it on."""

        def take(progress: Mapping[str, Any]) -> None:
            self.add(progress)
            if on_batch is not None:
                on_batch(progress)

        hurried = on_batch is not None and not isinstance(on_batch, ThrottledCallback)
        return take if hurried else ThrottledCallback(take)

    def add(self, progress: Mapping[str, Any]) -> None:
        """A micro-batch that is done; never raises."""
        try:
            with self._access:
                self._progress.add(progress)
                seen = self._progress.topics_read | self._progress.topics_written
            self.measures.add(progress)
            if not seen <= self._topics:
                self._news = True
                self._woken.set()
            elif self._schemas.due():
                self._woken.set()
        except (KeyError, TypeError, ValueError, AttributeError):
            # Another form of progress than this Spark's.
            return

    @_never_raise
    def end(self, error: BaseException | str | None, *, stopped: bool) -> None:
        """Tell of the end, deliver what can be delivered, within its bound."""
        self._failed = error is not None
        self._over.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.lineage.emit_seconds)
        self._add_last(error)
        if stopped:
            self._run.abort()
        elif error is not None:
            self._run.fail(error)
        else:
            self._run.complete()
        if self._note is not None:
            self._note.clear()
        self._emitter.close()

    @_never_raise
    def _add_last(self, error: BaseException | str | None) -> None:
        """Put all that is known onto the last event, which is told however this goes."""
        self.measures.end(error)
        with self._telling:
            self._add_progress()

    @_never_raise
    def _tell_on(self) -> None:
        interval = self._settings.lineage.interval_seconds
        due = time.monotonic() + interval
        while not self._over.is_set():
            self._woken.wait(max(0.0, due - time.monotonic()))
            self._woken.clear()
            # A last look is taken here, too: the end does not wait for a table without a bound.
            news, self._news = self._news, False
            changed = not self._failed and self._add_schemas()
            if self._over.is_set():
                return
            if news or changed or time.monotonic() >= due:
                self.measures.tell()
                with self._telling:
                    self._add_progress()
                    self._run.running()
                due = time.monotonic() + interval

    def _add_schemas(self) -> bool:
        """Put what has changed in the tables onto the next event; whether there is something."""
        changed = self._schemas.changed()
        for name, schema in changed.items():
            self._run.add_dataset_facet(name, "schema", schema)
        return bool(changed)

    def _add_progress(self) -> None:
        """Put what is known of the batches onto the next event."""
        self._add_gaps()
        with self._access:
            progress = self._progress
            read, written = progress.take_ranges()
            counts, batch = progress.counts(), progress.batch
            rows_in, rows_out = dict(progress.rows_in), dict(progress.rows_out)
            told = progress.batches > 0
            self._topics |= rows_in.keys() | rows_out.keys()
        if not told:
            return
        if lost := self._emitter.counts.dropped:
            counts["eventsLost"] = lost
        rows, size = self.measures.written()
        if self._query.files_only and rows is not None:
            counts.setdefault("rowsOut", rows)
        run, inputs, outputs = self._run, self._inputs, self._outputs_by_topic
        run.add_run_facet("headwater_progress", facets.own("ProgressRunFacet", "1-0-0", **counts))
        if read or written:
            ranges = facets.offset_ranges(
                batch, inputs.listed(read), outputs.listed(written), self._query.job_version
            )
            run.add_run_facet("headwater_offsets", ranges, once=True)
        for topic, rows in rows_in.items():
            run.add_input_facet(inputs[topic], "inputStatistics", facets.input_statistics(rows))
        for topic, rows in rows_out.items():
            statistics = facets.output_statistics(rows)
            run.add_output_facet(outputs[topic], "outputStatistics", statistics)
        if self._query.outputs and "rowsOut" in counts:
            first = name_of(self._query.outputs[0])
            if not first.namespace.startswith("kafka:") or not rows_out:
                statistics = facets.output_statistics(counts["rowsOut"], size)
                run.add_output_facet(first, "outputStatistics", statistics)

    def _add_gaps(self) -> None:
        if self._query.gaps:
            lost = [self._inputs.range(*gap) for gap in sorted(set(self._query.gaps))]
            facet = facets.own("GapsRunFacet", "1-0-0", lost=lost)
            self._run.add_run_facet("headwater_gaps", facet)

    def _outputs(self) -> list[Dataset]:
        outputs = list(self._query.outputs)
        if outputs:
            outputs[0] = with_facets(outputs[0], self._found.output_facets)
        return outputs

    def _job_facet(self) -> facets.Facet:
        """What a reader needs to know of the job and of this description of it."""
        trouble = self._found.trouble
        return facets.own(
            "JobRunFacet",
            "1-0-0",
            jobVersion=self._query.job_version,
            opaqueSteps=list(self._found.opaque) or None,
            withoutColumns=trouble and self._redact(trouble)[:_MAX_TROUBLE],
        )

    def _end_killed_run(self) -> None:
        before = self._note.read() if self._note is not None else None
        if before is None or before.run_id == self._run.run_id:
            return
        killed = LineageRun(
            self._emitter.emit, before.job_namespace, before.job_name, before.run_id
        )
        killed.abort(f"its process ended without a word; run {self._run.run_id} goes on")
        previous = facets.own(
            "PreviousRunFacet", "1-0-0", runId=before.run_id, startedAt=before.started_at
        )
        self._run.add_run_facet("headwater_previous_run", previous)
