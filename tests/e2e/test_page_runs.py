"""Jobs that start others, tests, events of a run and dead letter topics, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.browser import Visit
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running

from headwater.settings import Settings

NOW = datetime.now(UTC)
DBT = run_id("dbt build")
TEST_RUN = run_id("test orders")
LARGE_NUMBER = "12345678901234567890"
ROW_LINEAGE = {"coverage": "ranges", "steps": ["MapInPandas"]}
STREAM = {"jobType": {"processingType": "STREAMING", "integration": "SPARK"}}
PHONE = {"width": 390, "height": 844}
ASSERTIONS = [
    {"assertion": "unique", "column": "id", "success": True},
    {"assertion": "not_null", "column": "id", "success": True},
    {
        "assertion": "accepted_values",
        "column": "status",
        "success": False,
        "severity": "error",
        "expected": "placed, shipped, returned",
        "actual": "lost",
        "content": "select * from orders where status not in ('placed', 'shipped', 'returned')",
    },
]
SIDE_TOPICS = ("visits-clean-dead-letter", "visits-clean-late", "visits-clean-parents")


def ago(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).isoformat()


def table(name: str, **more: Any) -> dict[str, Any]:
    return {"namespace": "duckdb", "name": name, "facets": {}, **more}


def model(name: str, minutes: float, end: str = "COMPLETE", **io: Any) -> list[dict[str, Any]]:
    """The events of a job that dbt starts."""
    parent = {"run": {"runId": DBT}, "job": {"namespace": "shop", "name": "dbt-build-shop"}}
    common: dict[str, Any] = {
        "job": name,
        "namespace": "shop",
        "run": TEST_RUN if name == "test.orders" else run_id(name),
        "run_facets": {"parent": parent},
        **io,
    }
    return [
        run_event("START", at=ago(minutes), **common),
        run_event(end, at=ago(minutes - 0.3), **common),
    ]


def dbt_events() -> list[dict[str, Any]]:
    tested = table("orders", inputFacets={"dataQualityAssertions": {"assertions": ASSERTIONS}})
    common: dict[str, Any] = {"job": "dbt-build-shop", "namespace": "shop", "run": DBT}
    return [
        run_event("START", at=ago(9), **common),
        *model("stg_orders", 8, inputs=[table("raw")], outputs=[table("stg_orders")]),
        *model("orders", 7, inputs=[table("stg_orders")], outputs=[table("orders")]),
        *model("test.orders", 6, "FAIL", inputs=[tested]),
        run_event("FAIL", at=ago(5), **common),
    ]


def stream_events() -> list[dict[str, Any]]:
    """A stream that has sent two records to its dead letter topic an hour ago."""
    topics = ("visits-clean", *SIDE_TOPICS)

    def event(kind: str, minutes: float, written: list[str], rows: list[int]) -> dict[str, Any]:
        outputs = [
            {
                **_topic(name),
                "outputFacets": {"outputStatistics": {"rowCount": count}} if count else {},
            }
            for name, count in zip(topics, rows, strict=True)
        ]
        progress = {"rowsIn": sum(rows), "outputsWritten": [_named(name) for name in written]}
        return run_event(
            kind,
            job="clean_visits",
            namespace="headwater",
            at=ago(minutes),
            inputs=[_topic("visits")],
            outputs=outputs,
            job_facets=STREAM,
            run_facets={"headwater_progress": progress, "headwater_rowLineage": ROW_LINEAGE},
        )

    return [
        event("START", 90, [], [0, 0, 0, 0]),
        event("RUNNING", 65, list(topics[:2]), [40, 2, 0, 0]),
        event("RUNNING", 0, ["visits-clean"], [90, 2, 0, 0]),
    ]


def _named(name: str) -> dict[str, Any]:
    return {"namespace": "kafka://localhost:9092", "name": name}


def _topic(name: str) -> dict[str, Any]:
    return {**_named(name), "facets": {}}


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    with running(headwater_settings, fresh_database(postgres), page=True) as found:
        found.send(*dbt_events(), *stream_events())
        # A number that no browser can represent.
        event = run_event("OTHER", job="numbers", namespace="shop", run_facets={"f": {"n": 9}})
        body = json.dumps(event).replace('{"n": 9}', f'{{"n": {LARGE_NUMBER}, "one": 1.0}}')
        headers = {"Content-Type": "application/json"}
        assert found.call("POST", "/lineage", data=body, headers=headers).status_code == 201
        yield found


def test_a_job_names_its_parent_and_lists_the_jobs_that_it_starts(visit: Visit) -> None:
    page = visit.page
    page.goto("/jobs/shop/dbt-build-shop")
    children = page.get_by_role("region", name="Table: Jobs that it starts")
    expect(children.get_by_role("row")).to_have_count(4)
    expect(children.get_by_role("row").filter(has_text="test.orders")).to_contain_text("failed")
    expect(children.get_by_role("row").filter(has_text="stg_orders")).to_contain_text("completed")
    children.get_by_role("link", name="stg_orders").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("stg_orders")
    expect(page.locator(".head")).to_contain_text("started by dbt-build-shop")
    expect(page.get_by_role("region", name="Table: Jobs that it starts")).to_have_count(0)
    page.get_by_role("link", name="dbt-build-shop").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("dbt-build-shop")


def test_a_job_shows_what_became_of_row_lineage_in_its_last_run(visit: Visit) -> None:
    page = visit.page
    page.goto("/jobs/headwater/clean_visits")
    badge = page.locator(".badge").filter(has_text="row lineage: ranges")
    why = "parents are known as ranges of offsets: because of MapInPandas"
    expect(badge).to_have_attribute("title", why)
    expect(page.locator(".head")).to_contain_text(why)
    page.goto("/jobs/shop/stg_orders")
    expect(page.get_by_role("heading", level=1)).to_have_text("stg_orders")
    expect(page.get_by_text("row lineage:")).to_have_count(0)


def test_a_run_leads_to_its_parent_and_to_the_runs_that_it_started(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/runs/{DBT}")
    # The run sent no error: the reason is the run that it started.
    expect(page.locator(".head")).to_contain_text("the run that it started failed: test.orders")
    children = page.get_by_role("region", name="Table: Runs that it started")
    names = children.get_by_role("row").get_by_role("rowheader").all_inner_texts()
    assert [name.strip() for name in names] == ["stg_orders", "orders", "test.orders"]
    children.get_by_role("link", name=TEST_RUN[:8]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(TEST_RUN)
    crumbs = page.locator(".crumbs")
    expect(crumbs).to_have_text(
        f"run of test.orders, started by run {DBT[:8]} of dbt-build-shop", use_inner_text=True
    )
    crumbs.get_by_role("link", name=DBT[:8]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(DBT)


@pytest.mark.parametrize(
    "address", ["/graph?node=job:shop:dbt-build-shop", "/graph?namespace=shop"]
)
def test_the_graph_connects_a_job_with_the_jobs_that_it_starts(visit: Visit, address: str) -> None:
    page = visit.page
    page.goto(address)
    cards = page.locator(".card")
    for name in ("dbt-build-shop", "stg_orders", "test.orders", "raw"):
        expect(cards.filter(has_text=name).first).to_be_visible()
    expect(page.locator("svg.lines path[data-state~=starts]")).to_have_count(3)
    expect(page.locator(".legend")).to_contain_text("starts")
    parent = cards.filter(has_text="dbt-build-shop")
    parent.click()
    details = page.get_by_role("complementary")
    expect(details).to_contain_text("3 jobs")
    expect(details).to_contain_text("reads 0, writes 0")
    # Its children and their datasets are its path.
    expect(page.locator("svg.lines path[data-state~=starts][data-state~=lit]")).to_have_count(3)
    expect(cards.filter(has_text="raw")).not_to_have_attribute("data-faded", "")


def test_a_failed_test_run_states_which_test_failed_and_why(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/runs/{TEST_RUN}")
    expect(page.locator(".head")).to_contain_text("test failed: accepted_values on status")
    tests = page.get_by_role("region", name="Tests", exact=True)
    expect(tests).to_contain_text("2 passed, 1 failed")
    first = tests.get_by_role("row").nth(1)
    expect(first).to_contain_text("accepted_values")
    expect(first).to_contain_text("expected placed, shipped, returned; found lost")
    first.get_by_text("Test", exact=True).click()
    expect(first).to_contain_text("select * from orders where status not in")
    first.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")


def test_the_quality_of_a_dataset_contains_tests_that_only_read_it(visit: Visit) -> None:
    page = visit.page
    page.goto("/datasets/duckdb/orders")
    row = page.get_by_role("region", name="Table: Tests").get_by_role("row").nth(1)
    expect(row).to_contain_text("test.orders")
    expect(row).to_contain_text("accepted_values on status: expected placed, shipped, returned")
    expect(page.get_by_text("No run has sent the facets")).to_have_count(0)


def test_the_events_of_a_run_are_requested_on_demand_and_shown_as_they_were_sent(
    visit: Visit,
) -> None:
    page = visit.page
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"/runs/{run_id('numbers')}")
    button = page.get_by_role("button", name="Show events")
    expect(button).to_be_visible()
    assert not any("/events/lineage" in url for url in requested)
    button.click()
    event = page.locator("details").filter(has=page.get_by_text("OTHER", exact=True))
    expect(page.get_by_role("region", name="Events", exact=True)).to_contain_text("1 of 1")
    event.locator("summary").click()
    expect(event).to_contain_text(f'"n": {LARGE_NUMBER}')
    expect(event).to_contain_text('"one": 1.0')
    expect(button).to_have_count(0)
    assert visit.violations() == []


def test_topics_to_which_nothing_was_written_are_folded_and_not_shown_as_written(
    visit: Visit,
) -> None:
    page = visit.page
    page.goto("/graph?namespace=headwater")
    cards = page.locator(".card")
    expect(cards.filter(has_text=re.compile("^visits-clean"))).to_contain_text("written now")
    expect(cards).to_have_count(3)
    side = page.get_by_role("button", name="3 topics, 2 dead letters of clean_visits")
    expect(side).to_have_attribute("aria-expanded", "false")
    side.click()
    expect(cards).to_have_count(6)
    expect(page).to_have_url(re.compile("open="))
    letters, late = (cards.filter(has_text=name) for name in SIDE_TOPICS[:2])
    expect(letters).to_contain_text("written 1 h ago")
    expect(late).to_contain_text("no write seen")
    page.reload()
    expect(cards).to_have_count(6)
    page.get_by_role("button", name="3 topics, 2 dead letters of clean_visits").click()
    expect(cards).to_have_count(3)
    cards.filter(has_text="clean_visits").click()
    details = page.get_by_role("complementary")
    expect(details).to_contain_text("visits-clean-dead-letter 2 in the last run")
    details.get_by_role("link", name="visits-clean-late").click()
    expect(page.locator(".head .fresh")).to_have_text("no write seen")


VIEWS = [
    "/jobs/shop/dbt-build-shop",
    "/jobs/shop/stg_orders",
    f"/runs/{DBT}",
    f"/runs/{TEST_RUN}",
    "/graph?node=job:shop:dbt-build-shop&chosen=job:shop:orders",
    "/graph?namespace=headwater",
    "/graph?namespace=headwater&chosen=job:headwater:clean_visits",
    "/datasets/duckdb/orders",
]


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", None), ("dark", PHONE)], ids=["light", "dark on a phone"]
)
def test_axe_finds_nothing_in_these_views(
    browser: Browser, service: Catalog, scheme: str, size: dict[str, int] | None
) -> None:
    visit = Visit(browser, service.url, color_scheme=scheme, **({"viewport": size} if size else {}))
    found = {}
    for address in VIEWS:
        visit.page.goto(address)
        visit.page.wait_for_function("() => !document.querySelector('.loading')")
        expect(visit.page.locator("main h1, main h2").first).to_be_visible()
        wide = visit.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        violations = visit.violations()
        if violations or wide > 0:
            found[address] = [*violations, f"{wide} pixels too wide"]
    visit.close()
    assert found == {}
    assert visit.page_errors == []
