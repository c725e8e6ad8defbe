"""A batch application as one run: what the OpenLineage listener says of it, put in order.

The listener tells of every query, under names of its own, and of many that nobody asked for:
`count`, `collect`, `show`. Here a write counts, and all writes of an application are one run of the
job that is named after it. What `java/` found out about tables completes what the listener says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from headwater.collector.datasets import Renaming, add_files, few_files, table_dataset
from headwater.openlineage import DatasetName, LineageRun, file_location
from headwater.openlineage import facets as make
from headwater.openlineage.events import Dataset, name_of

Told = Mapping[str, Any]
_COUNTS = ("rowCount", "size", "fileCount")
# How a program exits that SIGINT or SIGTERM has ended.
_STOPPED = (130, 143)


class ApplicationLineage:
    """Takes what is told of an application's queries, and tells the run of it."""

    def __init__(
        self,
        run: LineageRun,
        began: datetime,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.run = run
        self.began = began
        self._clock = clock
        self._started = False
        # By execution: what was found out about its tables, and waits for the listener's words.
        self._found: dict[int, Told] = {}
        self._names: set[DatasetName] = set()
        # Of each output the rows, bytes and files of all writes of this run.
        self._written: dict[DatasetName, dict[str, int]] = {}
        self._renaming = Renaming()
        self.run.add_run_facet("nominalTime", make.nominal_time(began))

    @property
    def started(self) -> bool:
        return self._started

    def start(self) -> None:
        """Tell that the run has begun, if that is not told yet."""
        if not self._started:
            self._started = True
            self.run.start()

    def take(self, told: Told) -> None:
        """One thing that was told, in the order in which it happened."""
        # Work that is no query of SQL, such as `rdd.saveAsTextFile`, has no number.
        execution = told.get("execution", -1)
        self._tell_of_others(than=execution)
        if "event" not in told:
            self._found[execution] = told
            self._renaming.learn(told)
            if told["state"] == "START":
                self._tell_of_begin({}, told)
            elif told.get("alone"):
                # The listener is not asked.
                self._tell_of_write({}, self._found.pop(execution), _written(told))
            return
        found, event = self._found.get(execution, {}), told["event"]
        if event["eventType"] in ("START", "RUNNING"):
            self._tell_of_begin(event, found)
        elif event["eventType"] == "COMPLETE":
            self._found.pop(execution, None)
            counted = _without_counts(event) if told.get("nested") else event
            self._tell_of_write(counted, found, _written(told))

    def finish(self, error: BaseException | str | None = None) -> None:
        """Tell how it ended; of an application that wrote nothing and did not fail, nothing."""
        self._tell_of_others()
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
            self.run.abort("it was stopped")
        elif isinstance(error, SystemExit):
            # Python exits with 1 when it is given a text, which it prints.
            shown = f"exit code {code}" if isinstance(code, int) else f"exit code 1: {code}"
            self.run.fail(f"the program ended with {shown}")
        else:
            self.run.fail(error)

    def _tell_of_begin(self, event: Told, found: Told) -> None:
        """A long write is seen from its beginning on; facts come with its end."""
        inputs, outputs = self._datasets(event, found)
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
            self._started = True
            self.run.start(*known)

    def _tell_of_write(
        self, event: Told, found: Told, written: Mapping[str, int] | None = None
    ) -> None:
        # The listener says of a write that failed that it is complete.
        if "failure" in found:
            return
        inputs, outputs = self._datasets(event, found)
        if _moves_rows(inputs, outputs) or (outputs and written):
            self.start()
            self._names |= {name_of(each) for each in (*inputs, *outputs)}
            uncounted = any(each.get("uncounted") for each in found.get("outputs", ()))
            self._add_up(outputs, written, uncounted=uncounted)
            self.run.running(inputs, outputs)

    def _add_up(
        self, outputs: list[Dataset], written: Mapping[str, int] | None, *, uncounted: bool
    ) -> None:
        """Let each output tell of all that the run has written to it.

        Of some commands, such as Delta's, the listener gives no numbers: then those of the tasks
        are taken, which say how much was written, but not to which of several outputs.
        """
        for output in outputs:
            given = output.get("outputFacets", {}).pop("outputStatistics", None)
            counted: dict[str, int] = {}
            if given is not None and not uncounted:
                counted = {each: given[each] for each in _COUNTS if given.get(each) is not None}
            elif written is not None and not uncounted and len(outputs) == 1:
                counted = {"rowCount": written["rows"], "size": written["bytes"]}
            elif written is None and not uncounted:
                # Nothing was written, or the query around this one tells of it.
                continue
            before = self._written.get(name_of(output))
            if before is not None:
                # A sum of which a part is not known is not known.
                counted = {each: before[each] + counted[each] for each in before.keys() & counted}
            self._written[name_of(output)] = counted
            if counted or before:
                told = make.output_statistics(*(counted.get(each) for each in _COUNTS))
                facets = output.get("outputFacets", {})
                output["outputFacets"] = {**facets, "outputStatistics": told}

    def _tell_of_others(self, than: int | None = None) -> None:
        """Writes of which the listener says nothing: it speaks at once after an end, or not."""
        over = [key for key, each in self._found.items() if key != than and each["state"] == "END"]
        for execution in over:
            found = self._found.pop(execution)
            self._tell_of_write({}, found, _written(found))

    def _datasets(self, event: Told, found: Told) -> tuple[list[Dataset], list[Dataset]]:
        """Inputs and outputs by the names that they have everywhere."""
        outputs = self._joined(event.get("outputs", ()), found.get("outputs", ()))
        inputs = few_files(self._joined(event.get("inputs", ()), found.get("inputs", ())).values())
        for table in found.get("outputs", ()):
            for source in table.get("columns", {}).get("sources", ()):
                files = [file_location(path) for path in source.get("files", ())]
                add_files(inputs, files, source.get("fields", ()))
        # A merge reads what it changes; that is no input, unlike a table that is added to itself.
        added_to_itself = {
            name_of(table_dataset(each, self._renaming))
            for each in found.get("outputs", ())
            if each.get("self")
        }
        for name in outputs.keys() - added_to_itself:
            inputs.pop(name, None)
        return list(inputs.values()), list(outputs.values())

    def _joined(self, said: Any, tables: Any) -> dict[DatasetName, Dataset]:
        """What the listener said of each dataset, and what was found of tables."""
        datasets: dict[DatasetName, Dataset] = {}
        for dataset in said:
            named = self._renaming.of(dataset)
            known = datasets.get(name_of(named), {})
            named["facets"] = {**known.get("facets", {}), **named["facets"]}
            datasets[name_of(named)] = {**known, **named}
        for table in tables:
            made = table_dataset(table, self._renaming)
            known = datasets.get(name_of(made), {})
            facets = {**known.get("facets", {}), **made["facets"]}
            said_of_columns = known.get("facets", {}).get("columnLineage")
            # Of a merge the listener says that the table is made from itself.
            if said_of_columns and not table.get("merged"):
                facets["columnLineage"] = _with_fields(
                    said_of_columns, made["facets"].get("columnLineage", {})
                )
            elif table.get("merged") and "columnLineage" not in made["facets"]:
                facets.pop("columnLineage", None)
            made["facets"] = facets
            datasets[name_of(made)] = {**known, **made}
        return datasets


def _with_fields(said: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """What the listener says of columns, and of others, of which it says nothing, the plan."""
    known = {name: each for name, each in said["fields"].items() if each.get("inputFields")}
    return {**said, "fields": {**found.get("fields", {}), **known}}


def _moves_rows(inputs: list[Dataset], outputs: list[Dataset]) -> bool:
    """Whether this is a write, and not the making, changing or dropping of a table."""
    return bool(outputs) and (
        bool(inputs)
        or any("columnLineage" in each["facets"] for each in outputs)
        or any("outputStatistics" in each.get("outputFacets", {}) for each in outputs)
    )


def _written(told: Told) -> Mapping[str, int] | None:
    """What the tasks have written; of a query inside of another one nothing, which has the same."""
    return None if told.get("nested") else told.get("written")


def _without_counts(event: Told) -> Told:
    """Of a query inside of another one, which counts the same rows."""
    outputs = [{**each, "outputFacets": {}} for each in event["outputs"]]
    return {**event, "outputs": outputs}
