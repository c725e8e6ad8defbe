"""Reports a batch application as one run, from the events of the OpenLineage listener.

The listener emits events for every query, also for `count`, `collect` and `show`, each under its
own job name. Here all writes of an application are one run of the job with the application's name.
The table details that `java/` reads from the plan complete the listener's events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from headwater.collector.datasets import Renaming, add_files, few_files, table_dataset
from headwater.errors import HeadwaterError
from headwater.openlineage import DatasetName, LineageRun, file_location
from headwater.openlineage import facets as make
from headwater.openlineage.events import Dataset, name_of

# An entry of the JVM queue (`java/`): an event of the listener, or the tables of a plan.
QueueEntry = Mapping[str, Any]
_COUNTS = ("rowCount", "size", "fileCount")
# Exit codes after SIGINT and SIGTERM.
_STOPPED = (130, 143)
# The state of the entry that ends the queue of an application.
APPLICATION_END = "APPLICATION_END"


class WriteInterruptedError(HeadwaterError):
    """The program ended while a write was running."""


class ApplicationLineage:
    """Turns the entries of the JVM queue into the events of the application's run."""

    def __init__(
        self,
        run: LineageRun,
        began: datetime,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            on_start: called when START is emitted.
        """
        self.run = run
        self._on_start = on_start
        self.began = began
        self._clock = clock
        self._started = False
        # Execution -> the tables of its plan, until the listener's event arrives.
        self._tables: dict[int, QueueEntry] = {}
        self._names: set[DatasetName] = set()
        # Output -> rows, bytes and files of all writes of this run.
        self._written: dict[DatasetName, dict[str, int]] = {}
        self._renaming = Renaming()
        # Execution -> the outputs of a write that has not ended.
        self._open: dict[int, frozenset[DatasetName]] = {}
        # Outputs -> the error of the last write to them, if it failed.
        self._failures: dict[frozenset[DatasetName], str] = {}
        self.run.add_run_facet("nominalTime", make.nominal_time(began))

    @property
    def started(self) -> bool:
        return self._started

    def start(self) -> None:
        """Emit START, unless it is emitted already."""
        if not self._started:
            self._emit_start()

    def take(self, entry: QueueEntry) -> None:
        """Process one entry; entries come in the order in which Spark posted them."""
        # Work without SQL, such as `rdd.saveAsTextFile`, has no execution id.
        execution = entry.get("execution", -1)
        self._report_unmatched(except_for=execution)
        if "event" not in entry:
            if entry["state"] == "END":
                self._open.pop(execution, None)
            if "outputs" not in entry:
                # The plan could not be read at the end: what was known at the start stays.
                return
            self._tables[execution] = entry
            self._renaming.learn(entry)
            if entry["state"] == "START":
                if not entry.get("nested"):
                    outputs = self._datasets({}, entry)[1]
                    self._open[execution] = frozenset(name_of(each) for each in outputs)
                self._report_start({}, entry)
            elif entry.get("alone"):
                # The plan has everything: the listener emits no event for this execution.
                self._report_write({}, self._tables.pop(execution), _written(entry))
            return
        tables, event = self._tables.get(execution, {}), entry["event"]
        if event["eventType"] in ("START", "RUNNING"):
            self._report_start(event, tables)
        elif event["eventType"] == "COMPLETE":
            self._tables.pop(execution, None)
            counted = _without_counts(event) if entry.get("nested") else event
            self._report_write(counted, tables, _written(entry))

    def outcome_of_writes(self) -> Exception | str | None:
        """The error of the run as far as its writes show it; None if all of them succeeded.

        A failed write that was repeated with success counts as a success.
        """
        self._report_unmatched()
        for outputs, failure in self._failures.items():
            return f"the write{_to(outputs)} failed: {failure}"
        for outputs in self._open.values():
            return WriteInterruptedError(f"the program ended during a write{_to(outputs)}")
        return None

    def finish(self, error: BaseException | str | None = None) -> None:
        """Emit the last event; none if the application wrote nothing and did not fail."""
        self._report_unmatched()
        code = error.code if isinstance(error, SystemExit) else None
        if isinstance(error, SystemExit) and not code:
            error = None
        if self.run.ended or not (self._started or error):
            return
        self.start()
        self.run.add_run_facet("nominalTime", make.nominal_time(self.began, self._clock()))
        if error is None:
            self.run.complete()
        elif isinstance(error, KeyboardInterrupt) or code in _STOPPED:
            self.run.abort("the application was stopped")
        elif isinstance(error, WriteInterruptedError):
            self.run.abort(str(error))
        elif isinstance(error, SystemExit):
            # Python prints a text passed to `sys.exit` and exits with 1.
            shown = f"exit code {code}" if isinstance(code, int) else f"exit code 1: {code}"
            self.run.fail(f"the program ended with {shown}")
        else:
            self.run.fail(error)

    def _report_start(self, event: QueueEntry, tables: QueueEntry) -> None:
        """Report the datasets of a write when it starts; their facets follow when it ends."""
        inputs, outputs = self._datasets(event, tables)
        if not _moves_rows(inputs, outputs):
            return
        known = (
            [name_of(each).dataset() for each in inputs],
            [name_of(each).dataset() for each in outputs],
        )
        names = {name_of(each) for each in (*inputs, *outputs)}
        if names <= self._names:
            return
        self._names |= names
        if self._started:
            self.run.running(*known)
        else:
            self._emit_start(*known)

    def _emit_start(self, *datasets: list[Dataset]) -> None:
        self._started = True
        self.run.start(*datasets)
        self._on_start()

    def _report_write(
        self, event: QueueEntry, tables: QueueEntry, written: Mapping[str, int] | None = None
    ) -> None:
        inputs, outputs = self._datasets(event, tables)
        names = frozenset(name_of(each) for each in outputs)
        # The listener emits COMPLETE for failed writes too.
        if "failure" in tables:
            if not tables.get("nested"):
                self._failures[names] = tables["failure"]
            return
        self._failures.pop(names, None)
        if _moves_rows(inputs, outputs) or (outputs and written):
            self.start()
            self._names |= {name_of(each) for each in (*inputs, *outputs)}
            uncounted = any(each.get("uncounted") for each in tables.get("outputs", ()))
            self._add_up(outputs, written, uncounted=uncounted)
            self.run.running(inputs, outputs)

    def _add_up(
        self, outputs: list[Dataset], written: Mapping[str, int] | None, *, uncounted: bool
    ) -> None:
        """Set the statistics of each output to the totals of the run.

        The listener has no statistics for some commands, such as Delta's. Then the metrics of the
        tasks are used if there is one output: they don't distinguish outputs.
        """
        for output in outputs:
            statistics = output.get("outputFacets", {}).pop("outputStatistics", None)
            counted: dict[str, int] = {}
            if statistics is not None and not uncounted:
                present = (each for each in _COUNTS if statistics.get(each) is not None)
                counted = {each: statistics[each] for each in present}
            elif written is not None and not uncounted and len(outputs) == 1:
                counted = {"rowCount": written["rows"], "size": written["bytes"]}
            elif written is None and not uncounted:
                # Nothing was written, or the enclosing query reports it.
                continue
            before = self._written.get(name_of(output))
            if before is not None:
                # A sum with an unknown part is unknown.
                counted = {each: before[each] + counted[each] for each in before.keys() & counted}
            self._written[name_of(output)] = counted
            if counted or before:
                totals = make.output_statistics(*(counted.get(each) for each in _COUNTS))
                facets = output.get("outputFacets", {})
                output["outputFacets"] = {**facets, "outputStatistics": totals}

    def _report_unmatched(self, except_for: int | None = None) -> None:
        """Report ended writes without an event of the listener, which comes directly after the end
        or not at all."""
        ended = [key for key, each in self._tables.items() if each["state"] == "END"]
        for execution in ended:
            if execution != except_for:
                tables = self._tables.pop(execution)
                self._report_write({}, tables, _written(tables))

    def _datasets(
        self, event: QueueEntry, tables: QueueEntry
    ) -> tuple[list[Dataset], list[Dataset]]:
        """Inputs and outputs under their canonical names."""
        outputs = self._joined(event.get("outputs", ()), tables.get("outputs", ()))
        inputs = few_files(self._joined(event.get("inputs", ()), tables.get("inputs", ())).values())
        for table in tables.get("outputs", ()):
            for source in table.get("lineage", {}).get("sources", ()):
                files = [file_location(path) for path in source.get("files", ())]
                add_files(inputs, files, source.get("fields", ()))
        # A merge reads the table that it changes, which is not an input; INSERT from itself is.
        self_inserts = {
            name_of(table_dataset(each, self._renaming))
            for each in tables.get("outputs", ())
            if each.get("self")
        }
        for name in outputs.keys() - self_inserts:
            inputs.pop(name, None)
        return list(inputs.values()), list(outputs.values())

    def _joined(self, emitted: Any, tables: Any) -> dict[DatasetName, Dataset]:
        """The datasets of the listener's event, completed with the tables of the plan."""
        datasets: dict[DatasetName, Dataset] = {}
        for dataset in emitted:
            named = self._renaming.of(dataset)
            known = datasets.get(name_of(named), {})
            named["facets"] = {**known.get("facets", {}), **named["facets"]}
            datasets[name_of(named)] = {**known, **named}
        for table in tables:
            from_plan = table_dataset(table, self._renaming)
            known = datasets.get(name_of(from_plan), {})
            facets = {**known.get("facets", {}), **from_plan["facets"]}
            listener_columns = known.get("facets", {}).get("columnLineage")
            # For a merge the listener reports the table as its own source.
            if listener_columns and not table.get("merged"):
                facets["columnLineage"] = _with_fields(
                    listener_columns, from_plan["facets"].get("columnLineage", {})
                )
            elif table.get("merged") and "columnLineage" not in from_plan["facets"]:
                facets.pop("columnLineage", None)
            from_plan["facets"] = facets
            datasets[name_of(from_plan)] = {**known, **from_plan}
        return datasets


def _to(outputs: frozenset[DatasetName]) -> str:
    names = ", ".join(sorted(each.name for each in outputs))
    return f" to {names}" if names else ""


def _with_fields(listener: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Column lineage of the listener; columns that it does not resolve come from the plan."""
    known = {name: each for name, each in listener["fields"].items() if each.get("inputFields")}
    return {**listener, "fields": {**plan.get("fields", {}), **known}}


def _moves_rows(inputs: list[Dataset], outputs: list[Dataset]) -> bool:
    """Whether this writes rows, and does not only create, alter or drop a table."""
    return bool(outputs) and (
        bool(inputs)
        or any("columnLineage" in each["facets"] for each in outputs)
        or any("outputStatistics" in each.get("outputFacets", {}) for each in outputs)
    )


def _written(entry: QueueEntry) -> Mapping[str, int] | None:
    """Rows and bytes that the tasks wrote; None for a nested query: the enclosing one has them."""
    return None if entry.get("nested") else entry.get("written")


def _without_counts(event: QueueEntry) -> QueueEntry:
    """The event of a nested query without statistics: the enclosing query counts the same rows."""
    outputs = [{**each, "outputFacets": {}} for each in event["outputs"]]
    return {**event, "outputs": outputs}
