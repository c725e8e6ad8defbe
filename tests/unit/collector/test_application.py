"""The writes of a batch application are one run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headwater.collector.application import ApplicationLineage
from headwater.collector.datasets import MAX_FILES
from headwater.openlineage import LineageRun

START = datetime(2026, 1, 1, tzinfo=UTC)
CSV = {"namespace": "file", "name": "/in/a.csv", "facets": {"schema": {"fields": []}}}


class ReportedApplication:
    """An application and its emitted events."""

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

    def tables(self, state: str, execution: int, **more: Any) -> None:
        self.lineage.take({"execution": execution, "state": state, **more})


def folder(name: str = "/out", **facets: Any) -> dict[str, Any]:
    return {"namespace": "file", "name": name, "facets": facets}


def table(name: str, **more: Any) -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}]
    location = f"file:///wh/{name}"
    known = {"name": name, "catalog": "demo", "provider": "iceberg", "location": location}
    return {**known, "fields": fields, **more}


def copied(leaf: int, field: str = "id") -> dict[str, Any]:
    """An input that a column is a copy of, as in the result of the plan's analysis."""
    identity = {"type": "DIRECT", "subtype": "IDENTITY", "masking": False, "description": ""}
    return {"leaf": leaf, "path": [field], "transformations": [identity]}


def lineage(*sources: dict[str, Any], inputs: Sequence[Any] = ()) -> dict[str, Any]:
    """The analysis of a plan that reads these sources and writes the column `id`."""
    columns = [{"name": "id", "value": {"inputs": inputs}}]
    return {"sources": sources, "columns": columns, "decisive": []}


def names(event: dict[str, Any], part: str) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in event[part]]


def test_queries_that_write_nothing_are_not_a_run() -> None:
    app = ReportedApplication()
    for state in ("START", "COMPLETE"):
        app.event(state, 1, [CSV])
    # Creating or dropping a table has no rows, columns or inputs.
    app.event("COMPLETE", 2, [], [folder(lifecycleStateChange={"x": "DROP"})])
    app.lineage.finish()
    assert app.states == []


def test_all_writes_of_an_application_are_one_run_under_its_name() -> None:
    app = ReportedApplication()
    for execution, output in enumerate(("/one", "/two")):
        for state in ("START", "RUNNING", "COMPLETE"):
            app.event(state, execution, [CSV], [folder(output)])
    app.lineage.finish()
    assert app.states == ["START", "RUNNING", "RUNNING", "RUNNING", "COMPLETE"]
    assert {(event["job"]["name"], event["run"]["runId"]) for event in app.events} == {
        ("App", "r-1")
    }
    assert names(app.events[0], "outputs") == [("file", "/one")]
    assert names(app.events[-1], "outputs") == [("file", "/one"), ("file", "/two")]
    assert names(app.events[-1], "inputs") == [("file", "/in/a.csv")]
    assert "nominalEndTime" in app.events[-1]["run"]["facets"]["nominalTime"]


def test_a_failed_write_is_not_reported_although_the_listener_emits_complete() -> None:
    app = ReportedApplication()
    app.tables("END", 1, inputs=[], outputs=[table("demo.a")], failure="it broke")
    app.event("COMPLETE", 1, [CSV], [folder("/wh/demo.a", columnLineage={"fields": {}})])
    app.lineage.finish("it broke")
    assert app.states == ["START", "FAIL"]
    assert app.events[-1]["outputs"] == []


def test_a_table_has_one_name_and_a_merge_has_the_columns_of_its_source() -> None:
    app = ReportedApplication()
    files = {"files": ["file:///in/a.csv", "file:///in/b.csv"]}
    # The target of the merge is not a source.
    columns = lineage({}, files, inputs=[copied(0), copied(1, "key")])
    merged = table("demo.a", merged=True, lineage=columns)
    app.tables("START", 1, inputs=[], outputs=[merged])
    app.tables("END", 1, inputs=[], outputs=[merged])
    itself = {"namespace": "file", "name": "/wh/demo.a", "field": "id"}
    wrong = {"fields": {"id": {"inputFields": [itself]}}}
    app.event(
        "COMPLETE",
        1,
        [folder("/in"), folder("/wh/demo.a")],
        [folder("/wh/demo.a", columnLineage=wrong)],
    )
    (event,) = app.events[1:]
    assert names(event, "outputs") == [("iceberg", "demo.a")]
    assert names(event, "inputs") == [("file", "/in/a.csv"), ("file", "/in/b.csv")]
    facets = event["outputs"][0]["facets"]
    fields = facets["columnLineage"]["fields"]["id"]["inputFields"]
    assert [(each["name"], each["field"]) for each in fields] == [
        ("/in/a.csv", "key"),
        ("/in/b.csv", "key"),
    ]
    assert facets["symlinks"]["identifiers"][0]["name"] == "/wh/demo.a"


def test_a_write_that_the_listener_does_not_report_is_reported_at_the_end() -> None:
    app = ReportedApplication()
    source = table("lake.source")
    columns = lineage({"table": "lake.source"}, inputs=[copied(0)])
    app.tables("END", 7, inputs=[source], outputs=[table("lake.copy", lineage=columns)])
    app.lineage.finish()
    assert app.states == ["START", "RUNNING", "COMPLETE"]
    last = app.events[-1]
    assert names(last, "inputs") == [("iceberg", "lake.source")]
    (field,) = last["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert (field["namespace"], field["name"]) == ("iceberg", "lake.source")


def test_a_write_that_the_listener_does_not_report_is_reported_with_the_next_entry() -> None:
    app = ReportedApplication()
    copy = table("lake.copy", lineage=lineage({"files": ["file:/in"]}))
    app.tables("START", 7, inputs=[], outputs=[copy])
    app.tables("END", 7, inputs=[], outputs=[copy], written={"rows": 5, "bytes": 50})
    assert "outputFacets" not in app.events[-1]["outputs"][0]
    # The listener would have emitted its event before this entry.
    app.tables("START", 8, inputs=[], outputs=[])
    assert _numbers(app.events[-1]["outputs"][0]["outputFacets"]) == {"rowCount": 5, "size": 50}
    app.lineage.finish()
    assert _numbers(app.events[-1]["outputs"][0]["outputFacets"]) == {"rowCount": 5, "size": 50}


def test_many_files_are_reported_as_their_folder() -> None:
    app = ReportedApplication()
    paths = [f"file:///in/{number}.csv" for number in range(MAX_FILES + 1)]
    columns = lineage({"files": paths}, inputs=[copied(0)])
    app.tables("END", 1, inputs=[], outputs=[table("demo.a", lineage=columns)])
    app.lineage.finish()
    last = app.events[-1]
    assert names(last, "inputs") == [("file", "/in")]
    (field,) = last["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert field["name"] == "/in"


def test_an_event_does_not_grow_with_the_number_of_folders() -> None:
    app = ReportedApplication()
    paths = [f"file:///in/{day}/{part}.csv" for day in range(300) for part in range(33)]
    other = [f"file:///other/{number}.csv" for number in range(MAX_FILES)]
    columns = lineage({"files": paths}, {"files": other}, inputs=[copied(0), copied(1)])
    # The listener reports the folders.
    days = [folder(f"/in/{day}", schema={"fields": []}) for day in range(300)]
    lake = [table(f"demo.t{number}") for number in range(MAX_FILES)]
    app.tables("END", 1, inputs=lake, outputs=[table("demo.a", lineage=columns)])
    app.event("COMPLETE", 1, [*days, folder("/other")], [folder("/wh/demo.a")])
    app.lineage.finish()
    last = app.events[-1]
    files = {name for kind, name in names(last, "inputs") if kind == "file"}
    assert files == {"/in", *(f"/other/{number}.csv" for number in range(MAX_FILES))}
    # Tables are never combined into folders.
    assert len(last["inputs"]) == len(files) + len(lake)
    fields = last["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert {each["name"] for each in fields} == files


def test_an_application_that_was_stopped_is_an_aborted_run() -> None:
    app = ReportedApplication()
    app.event("COMPLETE", 1, [CSV], [folder()])
    app.lineage.finish(SystemExit(143))
    assert app.states == ["START", "RUNNING", "ABORT"]
    for error, state in ((SystemExit(0), "COMPLETE"), (SystemExit(3), "FAIL")):
        other = ReportedApplication()
        other.event("COMPLETE", 1, [CSV], [folder()])
        other.lineage.finish(error)
        assert other.states[-1] == state
    # A later call has no effect.
    app.lineage.finish()
    assert app.states[-1] == "ABORT"


def test_rows_of_all_writes_to_an_output_are_added_up() -> None:
    def counted(name: str, **statistics: int) -> dict[str, Any]:
        return {**folder(name), "outputFacets": {"outputStatistics": statistics}}

    app = ReportedApplication()
    by_tasks = {"rows": 100, "bytes": 5000}
    # The statistics of the listener take precedence over those of the tasks.
    app.event("COMPLETE", 1, [CSV], [counted("/a", rowCount=3, fileCount=2)], written=by_tasks)
    app.event("COMPLETE", 2, [CSV], [counted("/a", rowCount=4, size=40, fileCount=2)])
    # A nested query writes the same rows.
    app.event("COMPLETE", 6, [CSV], [counted("/a", rowCount=4)], written=by_tasks, nested=True)
    # It has none for Delta commands.
    app.event("COMPLETE", 3, [CSV], [folder("/b")], written={"rows": 7, "bytes": 70})
    app.event("COMPLETE", 4, [CSV], [folder("/b")], written={"rows": 1, "bytes": 10})
    # The tasks do not show which of two outputs has the rows.
    app.event("COMPLETE", 7, [CSV], [folder("/d")], written=by_tasks)
    app.event("COMPLETE", 5, [CSV], [folder("/c"), folder("/d")], written=by_tasks)
    # Nor how many rows a delete file removes.
    app.tables("END", 8, inputs=[], outputs=[table("demo.e")], alone=True, written=by_tasks)
    app.tables("END", 9, inputs=[table("demo.f")], outputs=[table("demo.e", uncounted=True)])
    app.lineage.finish()
    outputs = app.events[-1]["outputs"]
    assert {each["name"]: _numbers(each.get("outputFacets", {})) for each in outputs} == {
        "/a": {"rowCount": 7, "fileCount": 4},
        "/b": {"rowCount": 8, "size": 80},
        "/c": {},
        "/d": {},
        "demo.e": {},
    }


def _numbers(facets: dict[str, Any]) -> dict[str, int]:
    statistics = facets.get("outputStatistics", {})
    return {name: value for name, value in statistics.items() if not name.startswith("_")}


def test_a_write_with_a_complete_plan_is_reported_without_the_listener() -> None:
    app = ReportedApplication()
    fields = [{"name": "id", "type": "string"}]
    source = {"files": ["file:///in/a.csv"], "fields": fields}
    columns = lineage(source, inputs=[copied(0)])
    articles = table("demo.news.articles", lineage=columns, version="17")
    app.tables("START", 1, inputs=[], outputs=[articles], alone=True)
    more = {"inputs": [], "outputs": [articles], "alone": True}
    app.tables("END", 1, **more, written={"rows": 3, "bytes": 30})
    # Changing rows is a write too.
    changed = {**more, "outputs": [table("demo.news.articles", version="18")]}
    app.tables("END", 2, **changed, written={"rows": 2, "bytes": 20})
    app.lineage.finish()
    assert app.states == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    (file,) = app.events[1]["inputs"]
    assert (file["name"], file["facets"]["schema"]["fields"]) == ("/in/a.csv", fields)
    (output,) = app.events[1]["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == "17"
    assert output["facets"]["columnLineage"]["fields"]["id"]["inputFields"][0]["field"] == "id"
    assert _numbers(app.events[-1]["outputs"][0]["outputFacets"]) == {"rowCount": 5, "size": 50}
