"""The page with errors: refused requests, no database, too many items, misleading names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.alert_support import alerting
from tests.browser import Visit
from tests.catalog_support import Catalog, fresh_database, guarded, run_event, run_id, running

from headwater.settings import Settings

NOW = datetime.now(UTC)
MARK = "\u202e"
# In all names that a producer controls.
SPACE, JOB, DATASET, FIELD, TAG = (
    f"{word}{MARK}gnirts" for word in ("space", "job", "dataset", "field", "TAG")
)
RULES = """
alerts:
  - name: a_job_failed
    condition: job_run.state == 'FAILED'
    summary: "one\\u202e failed"
"""
FAILED = 104
# Visible or announced texts and attributes with a mark; URLs have them encoded.
HIDDEN = r"""() => {
    const marks = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/;
    const found = marks.test(document.title) ? ["title: " + document.title] : [];
    const kinds = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT;
    const walk = document.createTreeWalker(document.body, kinds);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        if (node.nodeType === Node.TEXT_NODE) {
            if (marks.test(node.data)) found.push(node.parentElement.outerHTML.slice(0, 200));
        } else for (const name of ["aria-label", "title", "placeholder", "alt", "aria-valuetext"]) {
            const value = node.getAttribute(name) ?? "";
            if (marks.test(value)) found.push(name + ": " + node.outerHTML.slice(0, 200));
        }
    }
    return found;
}"""


def _odd_events() -> list[dict[str, Any]]:
    schema = {"fields": [{"name": FIELD, "type": f"str{MARK}ing", "description": f"d{MARK}d"}]}
    made = {"namespace": SPACE, "name": f"in {DATASET}", "field": FIELD}
    lineage = {"fields": {FIELD: {"inputFields": [made]}}}
    metrics = {"rowCount": 3, "columnMetrics": {FIELD: {"nullCount": 1}}}
    assertions = {"assertions": [{"assertion": f"a{MARK}a", "success": False, "column": FIELD}]}
    facets = {
        "schema": schema,
        "columnLineage": lineage,
        "dataQualityMetrics": metrics,
        "dataQualityAssertions": assertions,
        "documentation": {"description": f"what{MARK}"},
        f"own{MARK}facet": {"value": MARK},
    }
    part = {"namespace": "kafka://x", "topic": f"topic{MARK}", "partition": 0}
    offsets = {
        "batch": 1,
        "jobVersion": f"v{MARK}1",
        "inputs": [{**part, "first": 0, "last": 3}],
        "outputs": [{**part, "first": 0, "last": 3}],
    }
    error = {"message": f"error {MARK}", "stackTrace": f"line {MARK}"}
    out = {"namespace": SPACE, "name": DATASET, "facets": facets}
    source = {"namespace": SPACE, "name": f"in {DATASET}", "facets": {"schema": schema}}
    common: dict[str, Any] = {"job": JOB, "namespace": SPACE, "inputs": [source]}

    def version(number: int) -> dict[str, Any]:
        url = f"https://example.com/{number}{MARK}"
        return {"sourceCodeLocation": {"type": "git", "url": url}}

    return [
        run_event(
            "COMPLETE",
            **common,
            run=run_id("odd-1"),
            at=(NOW - timedelta(hours=2)).isoformat(),
            outputs=[out],
            job_facets=version(1),
        ),
        run_event(
            "FAIL",
            **common,
            run=run_id("odd-2"),
            at=(NOW - timedelta(minutes=1)).isoformat(),
            outputs=[out],
            job_facets=version(2),
            run_facets={"errorMessage": error, "headwater_offsets": offsets, f"r{MARK}": {}},
        ),
    ]


@pytest.fixture(scope="module")
def service(
    headwater_settings: Settings, postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalog]:
    rules = tmp_path_factory.mktemp("rules") / "alerts.yml"
    rules.write_text(RULES, encoding="utf-8")
    settings = alerting(headwater_settings, rules)
    with running(settings, fresh_database(postgres), page=True) as found:
        events = [
            run_event("FAIL", job=f"etl:load_{number:03d}", namespace="a:b", at=NOW.isoformat())
            for number in range(FAILED)
        ]
        response = found.call("POST", "/lineage/batch", json=[*events, *_odd_events()])
        assert response.status_code == 200, response.text
        space, dataset = quote(SPACE, safe=""), quote(DATASET, safe="")
        for path in (
            f"/namespaces/{space}/datasets/{dataset}/tags/{quote(TAG)}",
            f"/namespaces/{space}/datasets/{dataset}/fields/{quote(FIELD)}/tags/{quote(TAG)}",
            f"/namespaces/{space}/jobs/{quote(JOB)}/tags/{quote(TAG)}",
        ):
            assert found.call("POST", path).status_code < 300
        yield found


def _views() -> list[str]:
    space, job, dataset = (quote(name, safe="") for name in (SPACE, JOB, DATASET))
    node = quote(f"dataset:{SPACE}:{DATASET}", safe="")
    column = quote(json.dumps([SPACE, DATASET, FIELD], separators=(",", ":"), ensure_ascii=False))
    return [
        "/",
        f"/graph?namespace={space}&chosen={node}",
        f"/graph?node={node}",
        f"/graph?node={node}&level=column&column={column}",
        "/jobs",
        f"/jobs/{space}/{job}",
        f"/runs/{run_id('odd-2')}",
        f"/datasets?namespace={space}",
        "/datasets",
        f"/datasets/{space}/{dataset}",
        "/alerts",
        f"/record/{quote(MARK)}",
        f"/nowhere/{quote(MARK)}",
    ]


def test_no_view_has_a_bidirectional_formatting_character(visit: Visit) -> None:
    page = visit.page
    found = {}
    for address in _views():
        page.goto(address)
        page.wait_for_function("() => !document.querySelector('.loading')")
        expect(page.locator("main h1, main h2").first).to_be_visible()
        # Open all collapsed details.
        page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        if not address.startswith(("/record", "/nowhere")):
            expect(page.locator("main")).to_contain_text("\\u202e")
        hidden = page.evaluate(HIDDEN)
        if hidden:
            found[address] = hidden
    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("gnirts")
    expect(page.get_by_role("option").first).to_contain_text("\\u202e")
    found |= {"search": page.evaluate(HIDDEN)} if page.evaluate(HIDDEN) else {}
    assert found == {}


def test_the_number_of_alerts_is_shown_if_not_all_are_listed(visit: Visit) -> None:
    page = visit.page
    page.goto("/alerts")
    now = page.get_by_role("region", name="Now")
    expect(now).to_contain_text(re.compile(r"100 of \d{3} alerts"), timeout=20_000)
    # Names of jobs and namespaces may contain a colon.
    expect(now.get_by_role("link", name="job etl:load_000").first).to_be_visible()
    incident = page.get_by_role("region", name="Incidents", exact=True).get_by_role("row").nth(1)
    message = incident.get_by_text("job_run.state = FAILED")
    # The message is inside its row.
    outer, inner = incident.bounding_box(), message.bounding_box()
    assert outer is not None
    assert inner is not None
    assert outer["y"] <= inner["y"] <= outer["y"] + outer["height"]


def test_the_filter_for_differences_is_part_of_the_url(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/jobs/{quote(SPACE, safe='')}/{quote(JOB, safe='')}")
    rows = page.locator("table.compare tbody tr")
    expect(rows.filter(has_text="reads")).to_have_count(1)
    page.get_by_label("Only differences").check()
    expect(page).to_have_url(re.compile("differs=only"))
    expect(rows.filter(has_text="reads")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Only differences")).to_be_checked()
    expect(rows.filter(has_text="reads")).to_have_count(0)


def fail_requests(page: Page, *paths: str) -> None:
    """Answer these requests like a service whose database can't be reached."""
    problem = {"code": 503, "message": "the database does not respond", "errors": []}

    def answer(route: Route) -> None:
        route.fulfill(status=503, content_type="application/json", body=json.dumps(problem))

    for path in paths:
        page.route(re.compile(f"/api/v1{path}"), answer)


def test_a_failed_request_shows_an_error_in_its_panel_only(visit: Visit) -> None:
    page = visit.page
    fail_requests(page, r"/alerts$", "/jobs/runs", "/metrics/history", "/alerts/incidents")
    page.goto("/")
    expect(page.get_by_role("group", name="Datasets")).to_be_visible()
    for panel in (
        "Alerts",
        "Latest failed runs",
        "Consumer lag",
        "Success and coverage",
        "Open alerts",
    ):
        region = page.get_by_role("region", name=panel, exact=True)
        expect(region).to_contain_text("the database does not respond")
        expect(region.get_by_role("button", name="Try again")).to_be_visible()
    assert visit.violations() == []
    page.unroute_all()
    # A panel recovers on its own, or on request.
    page.get_by_role("region", name="Latest failed runs").get_by_role("button").click()
    expect(page.get_by_role("region", name="Table: Failed runs")).to_be_visible()
    fail_requests(page, "/alerts/incidents")
    page.goto("/alerts")
    incidents = page.get_by_role("region", name="Incidents", exact=True)
    expect(incidents).to_contain_text("the database does not respond")


def test_the_list_of_datasets_shows_errors(visit: Visit) -> None:
    page = visit.page
    fail_requests(page, r"/namespaces\?")
    page.goto("/datasets")
    expect(page.get_by_role("alert")).to_contain_text("the database does not respond")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("link", name=re.compile("dataset")).first).to_be_visible()
    page.goto("/datasets?namespace=unknown")
    expect(page.get_by_role("heading", name=re.compile("no datasets|no such"))).to_be_visible()


def test_the_datasets_of_a_service_with_keys_require_one(
    browser: Browser, headwater_settings: Settings, postgres: str
) -> None:
    from headwater.catalog.store.keys import create_key

    with running(guarded(headwater_settings), fresh_database(postgres), page=True) as empty:
        _, key = create_key(empty.database, "reader", "read", None)
        visit = Visit(browser, empty.url)
        visit.page.goto("/datasets")
        visit.page.get_by_label(re.compile("API key")).fill(key)
        visit.page.get_by_role("button", name="Use key").click()
        heading = visit.page.get_by_role("heading", name="No datasets yet")
        expect(heading).to_be_visible()
        visit.close()
    assert visit.page_errors == []


def test_with_many_namespaces_the_page_asks_for_one(
    browser: Browser, headwater_settings: Settings, postgres: str
) -> None:
    with running(headwater_settings, fresh_database(postgres), page=True) as service:
        for number in range(25):
            table = {"namespace": f"space_{number:02d}", "name": f"table_{number}", "facets": {}}
            service.send(run_event(job=f"job_{number}", outputs=[table]))
        visit = Visit(browser, service.url)
        requested: list[str] = []
        visit.page.on("request", lambda request: requested.append(request.url))
        visit.page.goto("/datasets")
        choose = visit.page.get_by_role("region", name="Choose a namespace")
        expect(choose.get_by_role("link", name="space_07")).to_be_visible()
        assert not [url for url in requested if url.endswith("/datasets?limit=200")]
        choose.get_by_role("link", name="space_07").click()
        expect(visit.page.get_by_role("link", name="table_7")).to_be_visible()
        visit.close()
    assert visit.page_errors == []
