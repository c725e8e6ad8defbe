"""The events of a streaming query's run, from Spark's progress."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from tests.checkpoints import write_checkpoint
from tests.lineage_events import batch, names, spooled, states
from tests.waiting import wait_until

from headwater.collector import columns, streaming
from headwater.collector.columns import Description, describe_plan
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.sources import topic_dataset
from headwater.collector.streaming import report_streaming_run, topic_outputs
from headwater.openlineage import LineageRun, facets, lineage_facet
from headwater.openlineage.events import Roles, StreamProgress
from headwater.openlineage.spool.losses import read_lost
from headwater.settings import Settings
from headwater.spark.measures import run_measures
from headwater.spark.measures.run_measures import RunMeasures
from headwater.spark.query_runner import StopSignal


def query(settings: Settings, tmp_path: Path, *, finite: bool = True) -> QueryDescription:
    roles = Roles(dead_letters=("out-dead-letter",), parents=("out-parents",), with_lineage=True)
    outputs = topic_outputs(("out", "out-dead-letter"), settings)
    return QueryDescription("job", "v1", tmp_path / "checkpoint", None, outputs, roles, finite)


def report(
    settings: Settings, tmp_path: Path, body: Callable[[Any], None], *, finite: bool = True
) -> list[dict[str, Any]]:
    run_id = str(uuid.uuid4())
    lineage = query(settings, tmp_path, finite=finite)
    with report_streaming_run(lineage, run_id, settings, StopSignal()) as on_batch:
        body(on_batch)
    return [each for each in spooled(settings, "job") if each["run"]["runId"] == run_id]


def test_a_new_topic_is_reported_without_delay_and_ranges_only_once(
    settings: Settings, tmp_path: Path
) -> None:
    def body(on_batch: Any) -> None:
        on_batch(batch(0, {"visits": (0, 3)}, {"out/0": "10,12,3"}))
        wait_until(lambda: "RUNNING" in states(spooled(settings, "job")))
        on_batch(batch(1, {"visits": (3, 7)}, {"out/0": "13,15,3", "out-dead-letter/0": "0,0,1"}))
        on_batch(batch(2, {"visits": (7, 8)}, {"out/0": "20,20,1", "without-parents": "1"}))

    start, running, end = report(settings, tmp_path, body)
    assert names(start, "outputs") == ["out", "out-dead-letter"]
    assert names(running, "inputs") == ["visits"]
    ranges = [
        [
            (each["first"], each["last"])
            for each in event["run"]["facets"]["headwater_offsets"][side]
        ]
        for event in (running, end)
        for side in ("inputs", "outputs")
    ]
    assert ranges == [[(0, 2)], [(10, 12)], [(3, 7)], [(13, 20), (0, 0)]]
    assert end["run"]["facets"]["headwater_offsets"]["batch"] == 2
    progress = end["run"]["facets"]["headwater_progress"]
    counts = [progress[name] for name in ("rowsIn", "rowsOut", "rowsWithLineage", "deadLettered")]
    assert counts == [8, 7, 6, 1]
    assert progress["lag"] == 5


def written(event: dict[str, Any]) -> list[str]:
    listed = event["run"]["facets"]["headwater_progress"]["outputsWritten"]
    assert all(each["namespace"].startswith("kafka:") for each in listed)
    return [each["name"] for each in listed]


def test_an_event_lists_the_outputs_that_were_written_since_the_previous_one(
    settings: Settings, tmp_path: Path
) -> None:
    def body(on_batch: Any) -> None:
        on_batch(batch(0, {"visits": (0, 3)}, {"out/0": "10,12,3"}))
        wait_until(lambda: "RUNNING" in states(spooled(settings, "job")))
        on_batch(batch(1, {"visits": (3, 7)}, {"out-dead-letter/0": "0,0,1"}))

    start, running, end = report(settings, tmp_path, body)
    # All events name both topics as outputs.
    assert {tuple(names(each, "outputs")) for each in (start, end)} == {("out", "out-dead-letter")}
    assert [written(each) for each in (start, running, end)] == [[], ["out"], ["out-dead-letter"]]


def test_an_output_is_listed_as_written_if_its_sink_counts_no_rows(
    settings: Settings, tmp_path: Path
) -> None:
    lineage = QueryDescription(
        "uncounted", "v1", tmp_path, None, topic_outputs(("out",), settings), Roles(), finite=True
    )
    with report_streaming_run(lineage, str(uuid.uuid4()), settings, StopSignal()) as on_batch:
        assert on_batch is not None
        on_batch(batch(0, {"visits": (0, 3)}))
    events = spooled(settings, "uncounted")
    assert "rowsOut" not in events[-1]["run"]["facets"]["headwater_progress"]
    # A new input may have been reported before the end.
    assert {name for each in events[1:] for name in written(each)} == {"out"}
    assert written(events[0]) == []


def test_the_first_batch_starts_at_the_offsets_of_the_checkpoint(
    settings: Settings, tmp_path: Path
) -> None:
    def first_batch() -> dict[str, Any]:
        progress = batch(0, {"visits": (4, 9)})
        # Spark reports no start offsets for the first batch.
        progress["sources"][0]["startOffset"] = None
        return progress

    def read_of(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
        # A new topic may be reported before the end.
        offsets = [each["run"]["facets"].get("headwater_offsets") for each in events]
        return [(one["first"], one["last"]) for each in offsets if each for one in each["inputs"]]

    events = report(settings, tmp_path, lambda on_batch: on_batch(first_batch()))
    assert read_of(events) == [], "the start offsets are unknown"
    assert events[-1]["run"]["facets"]["headwater_progress"]["rowsIn"] == 5

    write_checkpoint(tmp_path / "checkpoint", "visits", started={0: 4}, committed={0: 4})
    events = report(settings, tmp_path, lambda on_batch: on_batch(first_batch()))
    assert read_of(events) == [(4, 8)]
    assert events[-1]["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 5


def test_offset_ranges_are_not_repeated_in_the_last_event(
    settings: Settings, tmp_path: Path
) -> None:
    def body(on_batch: Any) -> None:
        on_batch(batch(0, {"visits": (0, 3)}))
        wait_until(lambda: "RUNNING" in states(spooled(settings, "job")))

    *_, running, end = report(settings, tmp_path, body)
    assert "headwater_offsets" in running["run"]["facets"]
    assert "headwater_offsets" not in end["run"]["facets"]
    assert end["run"]["facets"]["headwater_progress"]["rowsIn"] == 3


def test_the_last_event_shows_how_the_query_ended(settings: Settings, tmp_path: Path) -> None:
    def fail(on_batch: Any) -> None:
        raise ValueError("broken")

    def interrupt(on_batch: Any) -> None:
        raise KeyboardInterrupt

    nothing: Callable[[Any], None] = lambda on_batch: None  # noqa: E731
    assert states(report(settings, tmp_path, nothing)) == ["START", "COMPLETE"]
    assert states(report(settings, tmp_path, nothing, finite=False)) == ["START", "ABORT"]
    with pytest.raises(ValueError, match="broken"):
        report(settings, tmp_path, fail)
    with pytest.raises(KeyboardInterrupt):
        report(settings, tmp_path, interrupt)
    assert states(spooled(settings, "job"))[-4:] == ["START", "FAIL", "START", "ABORT"]
    assert not list((tmp_path / "checkpoint").rglob("run.json")), "no run is open"


def test_a_run_that_was_killed_is_ended_by_the_next(settings: Settings, tmp_path: Path) -> None:
    def killed(on_batch: Any) -> None:
        note = next((tmp_path / "checkpoint").rglob("run.json"))
        note.rename(note.with_suffix(".kept"))

    (first, *_) = report(settings, tmp_path, killed)
    kept = next((tmp_path / "checkpoint").rglob("run.kept"))
    kept.rename(kept.with_suffix(".json"))
    start, _ = report(settings, tmp_path, lambda on_batch: None)
    run_id = first["run"]["runId"]
    assert start["run"]["facets"]["headwater_previous_run"]["runId"] == run_id
    assert states(spooled(settings, "job"), run_id)[-1] == "ABORT"


def test_a_query_runs_when_its_lineage_fails_to_start(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*args: Any, **more: Any) -> None:
        raise KeyError("no such thing")

    for name in ("StreamingRunReporter", "emitter_of", "_describe"):
        with monkeypatch.context() as broken:
            broken.setattr(streaming, name, fails)
            lineage = query(settings, tmp_path)
            with report_streaming_run(lineage, "r", settings, StopSignal()) as on_batch:
                assert on_batch is None
    assert caplog.messages == ["no lineage for query 'job': KeyError: 'no such thing'"] * 3
    monkeypatch.setattr(run_measures, "CostMeter", fails)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    run = LineageRun(lambda event: None, "n", "job", "r")
    with RunMeasures(run, (), None, settings).counting():
        pass
    assert caplog.messages[3:] == ["cost is not measured: KeyError('no such thing')"]


def test_a_failed_column_analysis_keeps_the_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*args: Any) -> None:
        raise IndexError("a plan of another form")

    class Analysis:
        columns = object()

    topic = topic_dataset("b:9092", "visits")
    monkeypatch.setattr(columns, "leaf_datasets", lambda plan, hidden: [[topic]])
    monkeypatch.setattr(columns, "kafka_servers", lambda plan: "b:9092")
    monkeypatch.setattr(columns, "_ColumnAnalysis", lambda plan, seconds: Analysis)
    monkeypatch.setattr(columns, "_add_columns", fails)
    described = describe_plan(None)
    assert (described.inputs, described.output_facets) == ([topic], {})
    assert described.trouble == "IndexError: a plan of another form"


def test_a_session_without_the_jar_of_headwater_is_reported_without_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = topic_dataset("b:9092", "visits")
    monkeypatch.setattr(columns, "leaf_datasets", lambda plan, hidden: [[topic]])
    monkeypatch.setattr(columns, "kafka_servers", lambda plan: "b:9092")
    # For py4j an unknown class is a package.
    packages = {"dev.headwater.columns.ColumnLineage": object()}
    monkeypatch.setattr(SparkContext, "_jvm", SimpleNamespace(**packages))
    described = describe_plan(None)
    assert (described.inputs, described.output_facets) == ([topic], {})
    assert described.trouble == (
        "Headwater's jar is not on Spark's class path: "
        "start Spark with the jars that `headwater jars path` prints: "
        'spark-submit --jars "$(headwater jars path)" …, '
        'or SparkSession.builder.config("spark.jars", …)'
    )


@pytest.mark.parametrize("broken", ["start", "add", "_add_progress"])
def test_lineage_errors_do_not_propagate_to_the_query(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fails(*args: Any) -> None:
        raise KeyError("no such thing")

    if broken == "start":
        monkeypatch.setattr(facets, "processing_engine", fails)
    elif broken == "add":
        monkeypatch.setattr(StreamProgress, "add", fails)
    else:
        monkeypatch.setattr(StreamingRunReporter, broken, fails)
    seen: list[int] = []

    def body(on_batch: Any) -> None:
        on_batch(batch(0, {"visits": (0, 3)}))
        seen.append(1)

    events = report(settings, tmp_path, body)
    assert seen == [1]
    if broken != "start":
        assert states(events)[-1] == "COMPLETE"


def test_later_events_have_the_number_of_lost_events(settings: Settings, tmp_path: Path) -> None:
    narrow = settings.model_copy(
        update={"lineage": settings.lineage.model_copy(update={"spool_mb": 0.02})}
    )

    def is_reported(topic: str) -> bool:
        try:
            return topic in names(spooled(narrow, "job")[-1], "inputs")
        except (IndexError, FileNotFoundError):
            # The segment was just dropped.
            return False

    def body(on_batch: Any) -> None:
        for number in range(12):
            # Each new topic is reported without delay; no catalog takes the events.
            on_batch(batch(number, {f"topic-{number}": (0, 3)}))
            wait_until(functools.partial(is_reported, f"topic-{number}"))

    *_, end = report(narrow, tmp_path, body)
    lost = read_lost(narrow.spool_dir)
    assert lost is not None
    assert 0 < end["run"]["facets"]["headwater_progress"]["eventsLost"] <= lost.events


def test_the_reason_for_missing_columns_has_no_secrets(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = "Py4JJavaError: password=hunter2\n" + "\tat org.apache.spark" * 1000
    monkeypatch.setattr(streaming, "_describe", lambda *_: Description(trouble=trouble))
    start, *_ = report(settings, tmp_path, lambda on_batch: None)
    reason = start["run"]["facets"]["headwater_job"]["withoutColumns"]
    assert reason.startswith("Py4JJavaError: password=***")
    assert len(reason) <= 1000


def test_a_failing_facet_function_does_not_affect_the_run(
    settings: Settings, tmp_path: Path
) -> None:
    @lineage_facet("acme_broken")
    def broken(run: Any) -> dict[str, Any]:
        raise SystemError("very broken")

    try:
        events = report(settings, tmp_path, lambda on_batch: None)
    finally:
        facets._facet_functions.clear()
    assert states(events) == ["START", "COMPLETE"]
