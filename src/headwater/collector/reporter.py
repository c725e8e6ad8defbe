"""Emits the events of one run of a streaming query.

START, with inputs, outputs and columns, before the first batch. RUNNING at an interval, with the
records read and written since the last event; without delay when an input or output is new or the
schema of an output table changes. At the end COMPLETE, ABORT (stopped) or FAIL. RUNNING events come
from another thread: the thread of a micro-batch only adds up Spark's progress.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Concatenate, ParamSpec

import pyspark

from headwater.collector.columns import Description, with_facets
from headwater.collector.query import QueryDescription
from headwater.collector.sources import OutputSchemas, SchemaOf, TopicNames, first_offsets
from headwater.openlineage import facets
from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import (
    VERSION,
    Dataset,
    DatasetName,
    StreamProgress,
    name_of,
    to_rfc3339,
)
from headwater.openlineage.facets import registered_job_facets
from headwater.openlineage.run import LineageRun, OpenRun, OpenRunNote, Redactor
from headwater.settings import Settings
from headwater.spark.measures.run_measures import RunMeasures
from headwater.spark.query_runner import OnBatch, ThrottledCallback
from headwater.spark.row_lineage import RowCoverage

_LOG = logging.getLogger(__name__)

# Enough to recognize an error of Spark, without its stack trace.
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


def _progress_facet(counts: Mapping[str, int], written: Iterable[DatasetName]) -> facets.Facet:
    listed = [{"namespace": each.namespace, "name": each.name} for each in sorted(set(written))]
    return facets.own("ProgressRunFacet", "1-1-0", **counts, outputsWritten=listed)


class StreamingRunReporter:
    """Emits the events of one run of a streaming query."""

    # Number of runs that this process has started.
    started: ClassVar[int] = 0

    def __init__(
        self,
        query: QueryDescription,
        run_id: str,
        settings: Settings,
        emitter: Emitter,
        description: Description,
        schema_of: SchemaOf | None = None,
    ) -> None:
        self._query = query
        self._settings = settings
        self._emitter = emitter
        self._redact = Redactor.from_settings(settings)
        self._description = description
        self._run = LineageRun.from_settings(settings, emitter.emit, query.job_name, run_id)
        for name, facet in {**query.job_facets, **registered_job_facets(query.job_name)}.items():
            self._run.add_job_facet(name, facet)
        output = name_of(query.outputs[0]) if query.outputs else None
        self.measures = RunMeasures(self._run, query.quality, output, settings)
        bound = settings.lineage.analysis_seconds
        started = functools.partial(first_offsets, query.checkpoint, bound)
        self._progress = StreamProgress(query.roles, started)
        servers = settings.bootstrap_servers
        self._inputs = TopicNames(description.inputs, description.bootstrap_servers or servers)
        self._outputs_by_topic = TopicNames(query.outputs, servers)
        self._topics = {name_of(each).name for each in (*description.inputs, *query.outputs)}
        self._schemas = OutputSchemas(self._outputs(), schema_of, query.unnested)
        self._access = threading.Lock()
        # Held from adding ranges to an event until it is emitted: each range is in one event only.
        self._emitting = threading.Lock()
        self._ended = threading.Event()
        self._failed = False
        self._new_topics = False
        # Outputs of a `foreachBatch`, which are found while the query runs.
        self._found: dict[DatasetName, Dataset] = {}
        # Rows of the last event, to find the outputs that were written since.
        self._rows_before = 0
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, name="lineage-run", daemon=True)
        self._note = (
            OpenRunNote(query.checkpoint, settings) if query.checkpoint is not None else None
        )

    @_never_raise
    def start(self) -> None:
        """Emit START, and ABORT for a previous run that was killed."""
        StreamingRunReporter.started += 1
        run, interval = self._run, self._settings.lineage.interval_seconds
        self._end_killed_run()
        run.add_job_facet("jobType", facets.job_type("STREAMING", interval=interval))
        engine = facets.processing_engine("spark", pyspark.__version__, VERSION)
        run.add_run_facet("processing_engine", engine)
        run.add_run_facet("headwater_job", self._job_facet())
        self._add_gaps()
        run.add_run_facet("headwater_progress", _progress_facet({"rowsIn": 0}, ()))
        if self._query.row_lineage is not None:
            run.add_run_facet("headwater_rowLineage", self._coverage_facet(self._query.row_lineage))
        if self._query.accepted:
            accepted = facets.own("AcceptedRunFacet", "1-0-0", changes=self._query.accepted)
            run.add_run_facet("headwater_accepted", accepted)
        run.start(self._description.inputs, self._outputs())
        if self._note is not None:
            at = to_rfc3339(datetime.now(UTC))
            self._note.write(OpenRun(run.run_id, run.job_namespace, run.job_name, at))
        self._thread.start()

    def wrap(self, on_batch: OnBatch | None) -> OnBatch:
        """A callback that adds the progress of a micro-batch and then calls `on_batch`."""

        def take(progress: Mapping[str, Any]) -> None:
            self.add(progress)
            if on_batch is not None:
                on_batch(progress)

        every_batch = on_batch is not None and not isinstance(on_batch, ThrottledCallback)
        return take if every_batch else ThrottledCallback(take)

    def add(self, progress: Mapping[str, Any]) -> None:
        """Add a completed micro-batch; never raises."""
        try:
            with self._access:
                self._progress.add(progress)
                seen = self._progress.topics_read | self._progress.topics_written
            self.measures.add(progress)
            if not seen <= self._topics:
                self._new_topics = True
                self._woken.set()
            elif self._schemas.due() or self._query.batch_outputs is not None:
                self._woken.set()
        except (KeyError, TypeError, ValueError, AttributeError):
            # Another version of Spark may have another progress format.
            return

    @_never_raise
    def end(self, error: BaseException | str | None, *, stopped: bool) -> None:
        """Emit the last event and deliver events, for at most `lineage.close_seconds`."""
        self._failed = error is not None
        self._ended.set()
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
        """Add the final values; the last event is emitted even if this fails."""
        self._add_found()
        if self._query.batch_outputs is not None:
            self._query.batch_outputs.close()
        self.measures.end(error)
        with self._emitting:
            self._add_progress()

    @_never_raise
    def _run_thread(self) -> None:
        interval = self._settings.lineage.interval_seconds
        due = time.monotonic() + interval
        while not self._ended.is_set():
            self._woken.wait(max(0.0, due - time.monotonic()))
            self._woken.clear()
            # Also the last check of schemas: `end` waits for this thread for a bounded time.
            new_topics, self._new_topics = self._new_topics, False
            last = self._ended.is_set()
            found = self._add_found()
            # Every batch of a `foreachBatch` wakes this thread; schemas are read less often.
            check = last or self._query.batch_outputs is None or self._schemas.due()
            changed = check and not self._failed and self._add_schemas()
            if self._ended.is_set():
                return
            if new_topics or found or changed or time.monotonic() >= due:
                self.measures.report()
                with self._emitting:
                    self._add_progress()
                    self._run.running()
                due = time.monotonic() + interval

    def _add_found(self) -> bool:
        """Add outputs that a `foreachBatch` has written to; returns whether there are any."""
        found = [] if self._query.batch_outputs is None else self._query.batch_outputs.take()
        for each in found:
            self._found[name_of(each.dataset)] = each.dataset
            self._schemas.add(each.dataset)
            self._run.add_datasets(each.inputs, [each.dataset])
        return bool(found)

    def _add_schemas(self) -> bool:
        """Add changed table schemas to the next event; returns whether there are any."""
        changed = self._schemas.changed()
        for name, schema in changed.items():
            self._run.add_dataset_facet(name, "schema", schema)
        return bool(changed)

    def _add_progress(self) -> None:
        """Add the progress of the batches to the next event."""
        self._add_gaps()
        with self._access:
            progress = self._progress
            read, written = progress.take_ranges()
            topics = progress.take_topics()
            counts, batch = progress.counts(), progress.batch
            rows_in, rows_out = dict(progress.rows_in), dict(progress.rows_out)
            has_batches = progress.batches > 0
            self._topics |= rows_in.keys() | rows_out.keys()
        if not has_batches:
            return
        if lost := self._emitter.counts.dropped:
            counts["eventsLost"] = lost
        rows, size = self.measures.written()
        if self._query.files_only and rows is not None:
            counts.setdefault("rowsOut", rows)
        run, inputs, outputs = self._run, self._inputs, self._outputs_by_topic
        names = [
            *self._written_since(counts, counted=bool(rows_out)),
            *(outputs[t] for t in topics),
        ]
        run.add_run_facet("headwater_progress", _progress_facet(counts, names))
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

    def _written_since(self, counts: Mapping[str, int], *, counted: bool) -> list[DatasetName]:
        """Outputs written since the last event, except topics whose rows the sink counts."""
        roles = self._query.roles
        rows = counts.get("rowsOut")
        if rows is None:
            # The sink does not count: a batch that read rows may have written some.
            rows = 0 if roles.with_lineage else counts["rowsIn"]
        before, self._rows_before = self._rows_before, rows
        if rows <= before:
            return []
        special = {*roles.dead_letters, *roles.late, *roles.parents}
        names = {**{name_of(each): each for each in self._query.outputs}, **self._found}
        return [
            each
            for each in names
            if not each.namespace.startswith("kafka:") or (not counted and each.name not in special)
        ]

    def _add_gaps(self) -> None:
        if self._query.gaps:
            lost = [self._inputs.range(*gap) for gap in sorted(set(self._query.gaps))]
            facet = facets.own("GapsRunFacet", "1-0-0", lost=lost)
            self._run.add_run_facet("headwater_gaps", facet)

    def _outputs(self) -> list[Dataset]:
        outputs = list(self._query.outputs)
        if outputs:
            outputs[0] = with_facets(outputs[0], self._description.output_facets)
        return outputs

    def _job_facet(self) -> facets.Facet:
        """Version of the job, and the limits of its column lineage."""
        trouble = self._description.trouble
        return facets.own(
            "JobRunFacet",
            "1-0-0",
            jobVersion=self._query.job_version,
            opaqueSteps=list(self._description.opaque) or None,
            withoutColumns=trouble and self._redact(trouble)[:_MAX_TROUBLE],
        )

    def _coverage_facet(self, coverage: RowCoverage) -> facets.Facet:
        """How much is known of the parents of the rows, and why not all."""
        return facets.own(
            "RowLineageRunFacet",
            "1-0-0",
            coverage=coverage.kind,
            steps=list(coverage.steps),
            reason=coverage.reason and self._redact(coverage.reason)[:_MAX_TROUBLE],
        )

    def _end_killed_run(self) -> None:
        before = self._note.read() if self._note is not None else None
        if before is None or before.run_id == self._run.run_id:
            return
        killed = LineageRun(
            self._emitter.emit, before.job_namespace, before.job_name, before.run_id
        )
        killed.abort(f"the process ended without a final event; run {self._run.run_id} continues")
        previous = facets.own(
            "PreviousRunFacet", "1-0-0", runId=before.run_id, startedAt=before.started_at
        )
        self._run.add_run_facet("headwater_previous_run", previous)
