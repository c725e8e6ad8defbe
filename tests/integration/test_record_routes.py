"""Queries about single records over HTTP, and the page's port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.page_story import send_story, write_records

from headwater.errors import QueryTimeoutError, TooBusyError
from headwater.service.record_queries import KafkaRecordQueries
from headwater.service.record_query_pool import RecordQueryPool
from headwater.settings import Settings
from headwater.testing.ports import free_port

PREFIX = "routes-"
REDUCED = f"{PREFIX}visits-reduced"


@pytest.fixture(scope="module")
def settings(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return broker.model_copy(update={"home": tmp_path_factory.mktemp("routes")})


@pytest.fixture(scope="module")
def service(settings: Settings, postgres: str) -> Iterator[Catalog]:
    write_records(settings, PREFIX)
    queries = KafkaRecordQueries(settings)
    with running(settings, fresh_database(postgres), queries=queries, page=True) as catalog:
        send_story(catalog.send, datetime.now(UTC), PREFIX)
        yield catalog


def test_ancestry_leads_to_the_source_with_values(service: Catalog) -> None:
    record = service.get(f"/records/{REDUCED}/0/5/ancestry")
    assert record["job_name"] == "visits_reducer"
    assert '"visit-5"' in record["value"]
    (parent,) = record["parents"]
    (source,) = parent["parents"]
    assert (source["topic"], source["offset"]) == (f"{PREFIX}visits", 5)
    assert (source["job_name"], source["parents"]) == (None, [])


@pytest.mark.parametrize("query", ["ancestry", "impact", "replay"])
@pytest.mark.parametrize(
    "record",
    [f"{REDUCED}/0/999", f"{REDUCED}/7/0", "gone/0/0", "no%20topic/0/0", f"{REDUCED}/0/-1"],
)
def test_a_record_that_does_not_exist_is_not_found(
    service: Catalog, record: str, query: str
) -> None:
    answer = service.call("GET", f"/records/{record}/{query}")
    if query == "impact" and answer.status_code == 503:
        assert "index" in answer.json()["message"]
    else:
        assert answer.status_code == 404, answer.text


def test_errors_contain_a_hint_and_no_folder_of_the_machine(
    service: Catalog, settings: Settings
) -> None:
    impact = service.call("GET", f"/records/{REDUCED}/0/5/impact")
    assert impact.status_code == 503
    assert "lineage_index_job" in impact.json()["errors"][0]
    replay = service.get(f"/records/{REDUCED}/0/5/replay")
    # Not a shipped transform here: the command has a placeholder.
    assert replay["complete"] is False
    assert "--job-name visits_reducer" in replay["command"]
    assert "no archive" in replay["refused"]["message"]
    assert str(settings.home_dir) not in impact.text + str(replay)


def test_an_unavailable_kafka_gives_503_without_its_address(
    settings: Settings, postgres: str
) -> None:
    kafka = settings.kafka.model_copy(update={"port": free_port(), "timeout_seconds": 1.0})
    queries = KafkaRecordQueries(settings.model_copy(update={"kafka": kafka}))
    with running(settings, fresh_database(postgres), queries=queries) as service:
        answer = service.call("GET", f"/records/{REDUCED}/0/5/ancestry")
    assert (answer.status_code, answer.json()["message"]) == (
        503,
        "Kafka does not respond to the service",
    )


def test_batches_of_a_run_are_listed_newest_first_with_truncated_set(service: Catalog) -> None:
    path = f"/jobs/runs/{run_id('visits_reducer')}/batches"
    answer = service.get(f"{path}?limit=2")
    assert [batch["batch"] for batch in answer["batches"]] == [4, 3]
    assert answer["truncated"] is True
    assert answer["batches"][0]["outputs"][0] | {"namespace": ""} == {
        "namespace": "",
        "topic": REDUCED,
        "partition": 0,
        "first": 16,
        "last": 19,
    }
    assert "truncated" not in service.get(path)
    assert service.call("GET", f"/jobs/runs/{run_id('unknown')}/batches").status_code == 404


def test_an_unchanged_response_is_not_sent_again(service: Catalog) -> None:
    first = service.call("GET", "/namespaces")
    known = {"If-None-Match": first.headers["ETag"]}
    again = service.call("GET", "/namespaces", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    service.send(run_event(namespace="new"))
    assert service.call("GET", "/namespaces", headers=known).status_code == 200
    assert "ETag" not in service.call("GET", "/namespaces/none/jobs/x").headers


def test_paths_of_views_return_the_page_and_paths_of_files_the_files(service: Catalog) -> None:
    index = service.call("GET", f"{service.url}/")
    policy = index.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    for address in ("/jobs/kafka%3A%2F%2Fx/a.b.js", "/record/a.b/0@1", "/build.json/x"):
        assert service.call("GET", f"{service.url}{address}").text == index.text
    for gone in ("gone.js", "%00.js", "%ff", "x" * 5000):
        assert service.call("GET", f"{service.url}/assets/{gone}").status_code == 404
    assert service.call("GET", f"{service.url}/build.json").json().keys() == {"sources"}
    assert service.call("POST", f"{service.url}/jobs").status_code == 405
    for escape in ("/assets/../../api/page.py", "/assets/%2e%2e/%2e%2e/api/page.py"):
        assert "class Page" not in service.call("GET", f"{service.url}{escape}").text


def test_queries_about_records_are_limited_in_number_and_time() -> None:
    proceed = threading.Event()
    pool = RecordQueryPool(None, max_pending=1, timeout_seconds=0.05)

    async def query() -> None:
        def slow() -> None:
            proceed.wait(20)

        with pytest.raises(QueryTimeoutError, match="longer than 0 s"):
            await pool.run(slow)
        # The first query is still pending: its thread can't be stopped.
        with pytest.raises(TooBusyError, match="1 queries about records"):
            await pool.run(lambda: None)
        proceed.set()
        while True:
            try:
                assert await pool.run(lambda: {"done": True}) == {"done": True}
                return
            except TooBusyError:
                await asyncio.sleep(0.01)

    asyncio.run(query())
    pool.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        asyncio.run(pool.run(lambda: None))
