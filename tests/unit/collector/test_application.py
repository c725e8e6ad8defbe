"""What the listener says of an application's queries becomes one run of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headwater.collector.application import ApplicationLineage
from headwater.collector.datasets import MAX_FILES
from headwater.openlineage import LineageRun

START = datetime(2026, 1, 1, tzinfo=UTC)
CSV = {"namespace": "file", "name": "/in/a.csv", "facets": {"schema": {"fields": []}}}
# Of a plan: the first source, its column, and how it becomes the output's.
AS_IT_IS = [[0, "id", "DIRECT", "IDENTITY", False, ""]]


class Told:
    """An application, and the events that were told of it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        run = LineageRun(self.events.append, "neuronews", "App", "r-1", clock=lambda: START)
        self.lineage = ApplicationLineage(run, START, clock=lambda: START)

    @property
    def states(self) -> list[str]:
        return [event["eventType"] for event in self.events]

    def event(
        self,
        state: str,
        execution: int,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        **more: Any,
    ) -> None:
        job = {"namespace": "neuronews", "name": "app.some_node", "facets": {}}
        event = {"eventType": state, "job": job, "inputs": inputs, "outputs": outputs}
        self.lineage.take({"execution": execution, "event": event, **more})

    def found(self, state: str, execution: int, **more: Any) -> None:
        self.lineage.take({"execution": execution, "state": state, **more})


def folder(name: str = "/out", **facets: Any) -> dict[str, Any]:
    return {"namespace": "file", "name": name, "facets": facets}


def table(name: str, **more: Any) -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}]
    location = f"file:///wh/{name}"
    known = {"name": name, "catalog": "demo", "provider": "iceberg", "location": location}
    return {**known, "fields": fields, **more}


def names(event: dict[str, Any], part: str) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in event[part]]


def test_queries_that_write_nothing_are_no_run() -> None:
    told = Told()
    for state in ("START", "COMPLETE"):
        told.event(state, 1, [CSV])
    # A table that is made or dropped has no rows, no columns and no inputs.
    told.event("COMPLETE", 2, [], [folder(lifecycleStateChange={"x": "DROP"})])
    told.lineage.finish()
    assert told.states == []


def test_all_writes_of_an_application_are_one_run_under_its_name() -> None:
    told = Told()
    for execution, output in enumerate(("/one", "/two")):
        for state in ("START", "RUNNING", "COMPLETE"):
            told.event(state, execution, [CSV], [folder(output)])
    told.lineage.finish()
    assert told.states == ["START", "RUNNING", "RUNNING", "RUNNING", "COMPLETE"]
    assert {(event["job"]["name"], event["run"]["runId"]) for event in told.events} == {
        ("App", "r-1")
    }
    assert names(told.events[0], "outputs") == [("file", "/one")]
    assert names(told.events[-1], "outputs") == [("file", "/one"), ("file", "/two")]
    assert names(told.events[-1], "inputs") == [("file", "/in/a.csv")]
    assert "nominalEndTime" in told.events[-1]["run"]["facets"]["nominalTime"]


def test_a_write_that_failed_is_none_though_the_listener_says_complete() -> None:
    told = Told()
    told.found("END", 1, inputs=[], outputs=[table("demo.a")], failure="it broke")
    told.event("COMPLETE", 1, [CSV], [folder("/wh/demo.a", columnLineage={"fields": {}})])
    told.lineage.finish("it broke")
    assert told.states == ["START", "FAIL"]
    assert told.events[-1]["outputs"] == []


def test_a_table_has_one_name_and_columns_of_a_merge_are_those_of_its_source() -> None:
    told = Told()
    columns = {
        "sources": [{"files": ["file:///in/a.csv", "file:///in/b.csv"]}],
        "fields": {"id": [[0, "key", "DIRECT", "TRANSFORMATION", False, ""]]},
    }
    merged = table("demo.a", merged=True, columns=columns)
    told.found("START", 1, inputs=[], outputs=[merged])
    told.found("END", 1, inputs=[], outputs=[merged])
    itself = {"namespace": "file", "name": "/wh/demo.a", "field": "id"}
    wrong = {"fields": {"id": {"inputFields": [itself]}}}
    told.event(
        "COMPLETE",
        1,
        [folder("/in"), folder("/wh/demo.a")],
        [folder("/wh/demo.a", columnLineage=wrong)],
    )
    (event,) = told.events[1:]
    assert names(event, "outputs") == [("iceberg", "demo.a")]
    assert names(event, "inputs") == [("file", "/in/a.csv"), ("file", "/in/b.csv")]
    facets = event["outputs"][0]["facets"]
    fields = facets["columnLineage"]["fields"]["id"]["inputFields"]
    assert [(each["name"], each["field"]) for each in fields] == [
        ("/in/a.csv", "key"),
        ("/in/b.csv", "key"),
    ]
    assert facets["symlinks"]["identifiers"][0]["name"] == "/wh/demo.a"


def test_what_the_listener_keeps_silent_about_is_told_in_the_end() -> None:
    told = Told()
    source = table("lake.source")
    columns = {"sources": [{"table": "lake.source"}], "fields": {"id": AS_IT_IS}}
    told.found("END", 7, inputs=[source], outputs=[table("lake.copy", columns=columns)])
    told.lineage.finish()
    assert told.states == ["START", "RUNNING", "COMPLETE"]
    last = told.events[-1]
    assert names(last, "inputs") == [("iceberg", "lake.source")]
    (field,) = last["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert (field["namespace"], field["name"]) == ("iceberg", "lake.source")


def test_what_the_listener_keeps_silent_about_does_not_wait_for_the_end_of_the_program() -> None:
    told = Told()
    copy = table("lake.copy", columns={"sources": [{"files": ["file:/in"]}], "fields": {}})
    told.found("START", 7, inputs=[], outputs=[copy])
    told.found("END", 7, inputs=[], outputs=[copy], written={"rows": 5, "bytes": 50})
    assert "outputFacets" not in told.events[-1]["outputs"][0]
    # Whatever comes next: there is nothing more to wait for.
    told.found("START", 8, inputs=[], outputs=[])
    assert _numbers(told.events[-1]["outputs"][0]["outputFacets"]) == {"rowCount": 5, "size": 50}
    told.lineage.finish()
    assert _numbers(told.events[-1]["outputs"][0]["outputFacets"]) == {"rowCount": 5, "size": 50}


def test_many_files_are_told_as_their_folder() -> None:
    told = Told()
    paths = [f"file:///in/{number}.csv" for number in range(MAX_FILES + 1)]
    columns = {"sources": [{"files": paths}], "fields": {"id": AS_IT_IS}}
    told.found("END", 1, inputs=[], outputs=[table("demo.a", columns=columns)])
    told.lineage.finish()
    last = told.events[-1]
    assert names(last, "inputs") == [("file", "/in")]
    (field,) = last["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert field["name"] == "/in"


def test_an_event_does_not_grow_with_the_folders_that_files_lie_in() -> None:
    told = Told()
    paths = [f"file:///in/{day}/{part}.csv" for day in range(300) for part in range(33)]
    other = [f"file:///other/{number}.csv" for number in range(MAX_FILES)]
    columns = {
        "sources": [{"files": paths}, {"files": other}],
        "fields": {"id": [*AS_IT_IS, [1, "id", "DIRECT", "IDENTITY", False, ""]]},
    }
    # The listener tells the folders.
    days = [folder(f"/in/{day}", schema={"fields": []}) for day in range(300)]
    lake = [table(f"demo.t{number}") for number in range(MAX_FILES)]
    found = {"inputs": lake, "outputs": [table("demo.a", columns=columns)]}
    told.found("END", 1, **found)
    told.event("COMPLETE", 1, [*days, folder("/other")], [folder("/wh/demo.a")])
    told.lineage.finish()
    last = told.events[-1]
    files = {name for kind, name in names(last, "inputs") if kind == "file"}
    assert files == {"/in", *(f"/other/{number}.csv" for number in range(MAX_FILES))}
    # Tables are no files, however many they are.
    assert len(last["inputs"]) == len(files) + len(lake)
    fields = last["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert {each["name"] for each in fields} == files


def test_an_application_that_was_stopped_is_an_aborted_run() -> None:
    told = Told()
    told.event("COMPLETE", 1, [CSV], [folder()])
    told.lineage.finish(SystemExit(143))
    assert told.states == ["START", "RUNNING", "ABORT"]
    for error, state in ((SystemExit(0), "COMPLETE"), (SystemExit(3), "FAIL")):
        other = Told()
        other.event("COMPLETE", 1, [CSV], [folder()])
        other.lineage.finish(error)
        assert other.states[-1] == state
    # Whatever comes afterwards, the run is over.
    told.lineage.finish()
    assert told.states[-1] == "ABORT"


def test_rows_of_all_writes_to_an_output_are_added_up_whoever_has_counted_them() -> None:
    def counted(name: str, **statistics: int) -> dict[str, Any]:
        return {**folder(name), "outputFacets": {"outputStatistics": statistics}}

    told = Told()
    by_tasks = {"rows": 100, "bytes": 5000}
    # The listener's own numbers are taken where it has some.
    told.event("COMPLETE", 1, [CSV], [counted("/a", rowCount=3, fileCount=2)], written=by_tasks)
    told.event("COMPLETE", 2, [CSV], [counted("/a", rowCount=4, size=40, fileCount=2)])
    # A query inside of another one writes the same rows.
    told.event("COMPLETE", 6, [CSV], [counted("/a", rowCount=4)], written=by_tasks, nested=True)
    # It has none for Delta's commands.
    told.event("COMPLETE", 3, [CSV], [folder("/b")], written={"rows": 7, "bytes": 70})
    told.event("COMPLETE", 4, [CSV], [folder("/b")], written={"rows": 1, "bytes": 10})
    # Nobody knows which of two outputs the rows are in.
    told.event("COMPLETE", 7, [CSV], [folder("/d")], written=by_tasks)
    told.event("COMPLETE", 5, [CSV], [folder("/c"), folder("/d")], written=by_tasks)
    # Nor, of a table in which rows are marked as deleted, how many were.
    told.found("END", 8, inputs=[], outputs=[table("demo.e")], alone=True, written=by_tasks)
    told.found("END", 9, inputs=[table("demo.f")], outputs=[table("demo.e", uncounted=True)])
    told.lineage.finish()
    found = {each["name"]: each.get("outputFacets", {}) for each in told.events[-1]["outputs"]}
    assert {name: _numbers(each) for name, each in found.items()} == {
        "/a": {"rowCount": 7, "fileCount": 4},
        "/b": {"rowCount": 8, "size": 80},
        "/c": {},
        "/d": {},
        "demo.e": {},
    }


def _numbers(facets: dict[str, Any]) -> dict[str, int]:
    statistics = facets.get("outputStatistics", {})
    return {name: value for name, value in statistics.items() if not name.startswith("_")}


def test_what_is_known_of_a_write_is_told_without_the_listener() -> None:
    told = Told()
    fields = [{"name": "id", "type": "string"}]
    source = {"files": ["file:///in/a.csv"], "fields": fields}
    made = {"sources": [source], "fields": {"id": AS_IT_IS}}
    articles = table("demo.news.articles", columns=made, version="17")
    told.found("START", 1, inputs=[], outputs=[articles], alone=True)
    more = {"inputs": [], "outputs": [articles], "alone": True}
    told.found("END", 1, **more, written={"rows": 3, "bytes": 30})
    # Rows that are only changed are a write, too.
    changed = {**more, "outputs": [table("demo.news.articles", version="18")]}
    told.found("END", 2, **changed, written={"rows": 2, "bytes": 20})
    told.lineage.finish()
    assert told.states == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    (file,) = told.events[1]["inputs"]
    assert (file["name"], file["facets"]["schema"]["fields"]) == ("/in/a.csv", fields)
    (output,) = told.events[1]["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == "17"
    assert output["facets"]["columnLineage"]["fields"]["id"]["inputFields"][0]["field"] == "id"
    assert _numbers(told.events[-1]["outputs"][0]["outputFacets"]) == {"rowCount": 5, "size": 50}
