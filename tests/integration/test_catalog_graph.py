"""The graph of the page: last writes, the complete graph, and the graph as of a time."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from tests.catalog_support import Catalog, dataset, fresh_database, run_event, run_id, running

from headwater.model import CHECKS_NAMESPACE
from headwater.settings import Settings

OUTPUTS = ("out", "out-dead-letter")
STREAM = {"jobType": {"processingType": "STREAMING", "integration": "SPARK"}}


def at(hour: int, minute: int = 0) -> str:
    return f"2026-01-01T{hour:02}:{minute:02}:00Z"


@pytest.fixture
def own(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    with running(headwater_settings, fresh_database(postgres), page=True) as service:
        yield service


def node(response: Any, name: str) -> Any:
    (match,) = [each for each in response["graph"] if each["id"] == name]
    return match["data"]


def names(response: Any) -> set[str]:
    return {each["id"] for each in response["graph"]}


@pytest.mark.parametrize("end", ["FAIL", "ABORT"])
def test_the_last_write_of_a_stopped_stream_is_its_last_progress(own: Catalog, end: str) -> None:
    common: dict[str, Any] = {"job": "stream", "outputs": ["out"], "job_facets": STREAM}
    own.send(run_event("START", at=at(1), **common), run_event("RUNNING", at=at(2), **common))
    own.send(run_event(end, at=at(3), job="stream", job_facets=STREAM))
    graph = own.get("/lineage?nodeId=job:tests:stream")
    assert node(graph, "dataset:data:out")["lastWrittenAt"] == at(2)
    assert own.get("/namespaces/data/datasets/out")["lastWrittenAt"] == at(2)


def test_a_failed_run_does_not_count_as_a_write(own: Catalog) -> None:
    own.send(run_event(at=at(1), run=run_id("good"), inputs=["in"], outputs=["out"]))
    own.send(run_event("FAIL", at=at(5), run=run_id("bad"), inputs=["in"], outputs=["out"]))
    graph = own.get("/graph")
    assert node(graph, "job:tests:job")["latestRun"]["state"] == "FAILED"
    assert node(graph, "dataset:data:out")["lastWrittenAt"] == at(1)
    # No run wrote it.
    assert node(graph, "dataset:data:in")["lastWrittenAt"] is None


def stream_event(event_type: str, hour: int, written: list[str] | None, **rows: int) -> Any:
    """An event of a stream with the outputs `out` and `out-dead-letter`.

    Args:
        written: outputs that the event lists as written; None for a producer that lists none.
        rows: row counts of outputs; None for a producer that counts no rows.
    """
    names = [{"namespace": "data", "name": name} for name in written or []]
    progress = {"rowsIn": 1, "outputsWritten": names}
    outputs = [
        {**each, "outputFacets": {"outputStatistics": {"rowCount": rows[each["name"]]}}}
        if each["name"] in rows
        else each
        for each in (dataset("out"), dataset("out-dead-letter"))
    ]
    facets = {} if written is None else {"headwater_progress": progress}
    common: dict[str, Any] = {"job": "stream", "job_facets": STREAM, "run_facets": facets}
    return run_event(event_type, at=at(hour), outputs=outputs, **common)


@pytest.mark.parametrize(
    "events",
    [
        [
            stream_event("START", 1, []),
            stream_event("RUNNING", 2, ["out"], out=3),
            stream_event("RUNNING", 3, [], out=3),
        ],
        # A producer that counts rows and does not list the outputs that it wrote.
        [
            stream_event("START", 1, None, **{"out": 0, "out-dead-letter": 0}),
            stream_event("RUNNING", 2, None, **{"out": 3, "out-dead-letter": 0}),
        ],
    ],
    ids=["listed", "counted"],
)
def test_an_output_to_which_a_stream_wrote_nothing_has_no_last_write(
    own: Catalog, events: list[Any]
) -> None:
    own.send(*events)
    graph = own.get("/graph")
    written = {name: node(graph, f"dataset:data:{name}")["lastWrittenAt"] for name in OUTPUTS}
    assert written == {"out": at(2), "out-dead-letter": None}
    # Metrics and alerts use the same time.
    assert own.rows("SELECT name FROM datasets WHERE written_at IS NOT NULL") == [("out",)]
    # Also in the past: the stream had started, and written nothing.
    before = own.get(f"/graph?at={at(1)}")
    assert node(before, "dataset:data:out-dead-letter")["lastWrittenAt"] is None
    own.send(stream_event("RUNNING", 5, ["out-dead-letter"], **{"out-dead-letter": 1}))
    letters = own.get("/namespaces/data/datasets/out-dead-letter")
    assert letters["lastWrittenAt"] == at(5)


def test_a_batch_run_that_wrote_no_rows_has_replaced_its_output(own: Catalog) -> None:
    empty = {**dataset("out"), "outputFacets": {"outputStatistics": {"rowCount": 0}}}
    own.send(run_event(at=at(1), outputs=[empty]))
    assert own.get("/namespaces/data/datasets/out")["lastWrittenAt"] == at(1)


def test_a_write_to_a_symlink_is_a_write_to_the_dataset(own: Catalog) -> None:
    alias = {"namespace": "data", "name": "alias", "type": "TABLE"}
    own.send(run_event(at=at(1), outputs=[dataset("path", symlinks={"identifiers": [alias]})]))
    own.send(run_event(at=at(4), run=run_id("later"), outputs=["alias"]))
    (found,) = [each for each in own.get("/graph")["graph"] if each["type"] == "DATASET"]
    assert found["data"]["lastWrittenAt"] == at(4)


def test_the_complete_graph_has_all_jobs_except_that_of_the_doctor(own: Catalog) -> None:
    own.send(
        run_event(job="one", namespace="a", inputs=["x"], outputs=["y"]),
        run_event(job="two", namespace="b", inputs=["y"]),
        run_event(job="probe", namespace=CHECKS_NAMESPACE, outputs=["probed"]),
    )
    datasets = {"dataset:data:x", "dataset:data:y"}
    assert names(own.get("/graph")) == {"job:a:one", "job:b:two", *datasets}
    assert names(own.get("/graph?namespace=a")) == {"job:a:one", *datasets}
    # A namespace with datasets only shows the jobs that use them.
    assert "job:b:two" in names(own.get("/graph?namespace=data"))
    chosen = own.get(f"/graph?namespace={CHECKS_NAMESPACE}")
    assert f"job:{CHECKS_NAMESPACE}:probe" in names(chosen)
    assert own.get("/graph?namespace=unknown") == {"graph": []}


def test_a_graph_that_is_too_large_has_the_latest_jobs_and_is_marked_as_truncated(
    headwater_settings: Settings, postgres: str
) -> None:
    few = headwater_settings.catalog.model_copy(update={"max_nodes": 3})
    settings = headwater_settings.model_copy(update={"catalog": few})
    with running(settings, fresh_database(postgres)) as service:
        for number in range(5):
            service.send(run_event(job=f"job_{number}", at=at(number)))
        response = service.get("/graph")
    assert names(response) == {f"job:tests:job_{number}" for number in (2, 3, 4)}
    assert response["truncated"] is True


def test_the_graph_as_of_a_time_has_the_states_of_that_time(own: Catalog) -> None:
    error = {"errorMessage": {"message": "no", "programmingLanguage": "PYTHON"}}
    first, second = run_id("first"), run_id("second")
    own.send(
        run_event("START", at=at(1), run=first, outputs=["out"]),
        run_event("COMPLETE", at=at(2), run=first, outputs=["out"]),
        run_event("START", at=at(3), run=second, outputs=["out"]),
        run_event("FAIL", at=at(4), run=second, outputs=["out"], run_facets=error),
        run_event(job="late", at=at(5), inputs=["out"]),
    )

    def as_of(path: str, when: str) -> tuple[str, str, str | None, bool]:
        graph = own.get(f"{path}at={when}")
        run = node(graph, "job:tests:job")["latestRun"]
        written = node(graph, "dataset:data:out")["lastWrittenAt"]
        assert ("errorMessage" in run["facets"]) is (when >= at(4))
        return run["id"], run["state"], written, "job:tests:late" in names(graph)

    for path in ("/graph?", "/lineage?nodeId=job:tests:job&"):
        assert as_of(path, at(1, 30)) == (first, "RUNNING", None, False)
        assert as_of(path, at(2, 30)) == (first, "COMPLETED", at(2), False)
        assert as_of(path, at(3, 30)) == (second, "RUNNING", at(2), False)
        assert as_of(path, at(4, 30)) == (second, "FAILED", at(2), False)
        assert as_of(path, at(6)) == (second, "FAILED", at(2), True)
    assert names(own.get(f"/graph?at={at(0)}")) == set()
    assert own.call("GET", "/graph?at=yesterday").status_code == 400


def test_a_running_stream_has_written_until_the_time_of_the_graph(own: Catalog) -> None:
    common: dict[str, Any] = {"job": "stream", "outputs": ["out"], "job_facets": STREAM}
    own.send(run_event("START", at=at(1), **common), run_event("RUNNING", at=at(9), **common))
    graph = own.get(f"/graph?at={at(4)}")
    assert node(graph, "job:tests:stream")["latestRun"]["state"] == "RUNNING"
    assert node(graph, "dataset:data:out")["lastWrittenAt"] == at(4)


def raw(service: Catalog, path: str, **headers: str) -> requests.Response:
    """A response without decoding."""
    accept = {"Accept-Encoding": "gzip", **headers}
    return requests.get(service.url + path, headers=accept, timeout=30, stream=True)


def test_responses_and_files_are_compressed_if_the_client_accepts_gzip(own: Catalog) -> None:
    for number in range(30):
        own.send(run_event(job=f"job_{number}", outputs=[f"out_{number}"]))
    compressed = raw(own, "/api/v1/graph")
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert "accept-encoding" in compressed.headers["Vary"].lower()
    body = compressed.raw.read(decode_content=False)
    plain = raw(own, "/api/v1/graph", **{"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(body) == plain.content
    assert len(body) < len(plain.content) / 4
    # The same content has the same ETag; a client that has it gets 304.
    assert compressed.headers["ETag"] == plain.headers["ETag"]
    again = raw(own, "/api/v1/graph", **{"If-None-Match": compressed.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    index = raw(own, "/").text
    (script,) = {
        part for part in index.split('"') if part.startswith("/assets/index-") and ".js" in part
    }
    assert raw(own, script).headers["Content-Encoding"] == "gzip"


def test_small_responses_and_responses_to_events_are_not_compressed(own: Catalog) -> None:
    assert "Content-Encoding" not in raw(own, "/api/v1/health").headers
    many = [run_event(job=f"job_{number}") for number in range(50)]
    bad = [{**event, "eventType": "X"} for event in many]
    response = own.call("POST", "/lineage/batch", json=bad)
    assert len(response.content) > 1024
    assert "Content-Encoding" not in response.headers
