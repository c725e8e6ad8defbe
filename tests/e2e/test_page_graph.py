"""The graph in a real browser: large, in the past, when something has stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.browser import Visit
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.page_story import many_events

from headwater.model import CHECKS_NAMESPACE
from headwater.settings import Settings

NOW = datetime.now(UTC)
JOBS = 500
STREAM = {"jobType": {"processingType": "STREAMING", "integration": "SPARK"}}
LONG_NAMES = [f"warehouse.sales.orders_by_country_and_month_of_delivery_{end}" for end in "ab"]
# How many points of the painted picture have a colour.
PAINTED = """(canvas) => {
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let points = 0;
    for (let at = 3; at < data.length; at += 4) if (data[at]) points++;
    return points;
}"""


def ago(**span: float) -> str:
    return (NOW - timedelta(**span)).isoformat()


def tell(service: Catalog, events: list[dict[str, Any]]) -> None:
    assert service.call("POST", "/lineage/batch", json=events).status_code == 201


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    with running(headwater_settings, fresh_database(postgres), page=True) as found:
        tell(found, many_events(NOW, JOBS))
        stream: dict[str, Any] = {"job": "stream", "namespace": "stopped", "job_facets": STREAM}
        tell(
            found,
            [
                run_event("START", **stream, at=ago(hours=9), outputs=["streamed"]),
                run_event("RUNNING", **stream, at=ago(hours=3), outputs=["streamed"]),
                run_event("FAIL", **stream, at=ago(hours=2)),
                *_two_runs(),
                *(run_event(job=f"load:{n}", namespace="long", outputs=[n]) for n in LONG_NAMES),
                _probe(),
            ],
        )
        yield found


def _probe() -> dict[str, Any]:
    """The newest of all runs that failed."""
    now = ago(seconds=0)
    return run_event("FAIL", job="probe", namespace=CHECKS_NAMESPACE, at=now, outputs=["probed"])


def _two_runs() -> list[dict[str, Any]]:
    """One that was good, and one that was not."""
    first: dict[str, Any] = {"job": "report", "namespace": "past", "run": run_id("past-1")}
    second = {**first, "run": run_id("past-2")}
    return [
        run_event("START", **first, at=ago(days=3), outputs=["report"]),
        run_event("COMPLETE", **first, at=ago(days=3, minutes=-5), outputs=["report"]),
        run_event("START", **second, at=ago(hours=30), outputs=["report"]),
        run_event("FAIL", **second, at=ago(hours=29), outputs=["report"]),
        run_event("COMPLETE", job="late", namespace="past", at=ago(hours=1), inputs=["report"]),
    ]


def test_a_thousand_nodes_are_all_painted_and_move_and_can_be_picked(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?namespace=many")
    expect(page.get_by_text(f"{JOBS} jobs, {JOBS + 1} datasets")).to_be_visible()
    surface = page.locator("canvas.surface")
    expect(surface).to_be_visible()
    # All but the one that keys begin with are paint: what is built does not grow with the graph.
    expect(page.locator(".card")).to_have_count(1)
    # No two cards overlap: what is painted has at least the area of all of them.
    card = page.locator(".card").bounding_box()
    assert card is not None
    assert surface.evaluate(PAINTED) > 0.9 * card["width"] * card["height"] * (2 * JOBS + 1)
    before = surface.evaluate("(canvas) => canvas.toDataURL()")
    box = surface.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 420, box["y"] + 320, steps=6)
    page.mouse.up()
    moved = surface.evaluate("(canvas) => canvas.toDataURL()")
    assert moved != before
    page.get_by_role("button", name="Show all").click()
    assert surface.evaluate("(canvas) => canvas.toDataURL()") == before
    page.locator(".card").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("complementary")).to_be_visible()
    expect(page).to_have_url(re.compile("chosen="))
    for _ in range(14):
        page.get_by_role("button", name="Zoom in").click()
    expect(surface).to_have_count(0)
    # Those in sight, and as many around them as fit on three further screens.
    assert page.locator(".card").count() < 4 * 90


def test_a_stopped_streams_dataset_tells_when_it_was_written(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?node=job:stopped:stream")
    expect(page.locator(".card[data-kind=job]")).to_have_attribute("data-state", "FAILED")
    card = page.locator(".card[data-kind=dataset]")
    expect(card).to_contain_text("written 3 h ago")
    expect(card).to_have_attribute("data-fresh", "ageing")
    page.goto("/datasets/data/streamed")
    expect(page.locator(".head .fresh")).to_have_text("written 3 h ago")
    page.goto("/datasets?namespace=data")
    row = page.get_by_role("row").filter(has_text="streamed")
    expect(row).to_contain_text("3 h ago")


def _stops(page: Page) -> int:
    slider = page.get_by_role("slider", name="As known")
    expect(slider).to_be_visible()
    return int(slider.get_attribute("max") or 0)


@pytest.mark.parametrize("address", ["/graph?namespace=past", "/graph?node=job:past:report"])
def test_the_slider_shows_states_and_freshness_of_the_time(visit: Visit, address: str) -> None:
    page = visit.page
    page.goto(address)
    report, written = (
        page.locator(f".card[data-kind={kind}]").filter(has_text="report")
        for kind in ("job", "dataset")
    )
    expect(report).to_have_attribute("data-state", "FAILED")
    expect(written).to_have_attribute("data-fresh", "stale")
    assert _stops(page) >= 4
    page.get_by_role("slider", name="As known").focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("at=20"))
    expect(report).to_have_attribute("data-state", "RUNNING")
    expect(written).to_contain_text("no write seen")
    page.keyboard.press("ArrowRight")
    expect(report).to_have_attribute("data-state", "COMPLETED")
    expect(written).to_have_attribute("data-fresh", "fresh")
    expect(written).to_contain_text("written just then")
    expect(page.locator(".card").filter(has_text="late")).to_have_count(0)
    page.get_by_role("button", name="Now").click()
    expect(report).to_have_attribute("data-state", "FAILED")
    expect(page.locator(".card").filter(has_text="late")).to_have_count(1)


def test_a_node_that_came_later_says_so(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/graph?node=job:past:late&at={(NOW - timedelta(days=9)).strftime('%FT%TZ')}")
    expect(page.get_by_role("heading", name="It was not known then")).to_be_visible()
    page.goto(f"/graph?at={(NOW - timedelta(days=9000)).strftime('%FT%TZ')}")
    expect(page.get_by_role("heading", name="Nothing was known then")).to_be_visible()


def test_the_whole_graph_leads_to_depth_direction_and_columns(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?namespace=past")
    expect(page.get_by_text("Choose a node, then Around it")).to_be_visible()
    page.locator(".card[data-kind=dataset]").filter(has_text="report").click()
    page.get_by_role("complementary").get_by_role("link", name="Around it").click()
    expect(page.get_by_label("Depth")).to_be_visible()
    expect(page.get_by_role("group", name="Direction")).to_be_visible()
    expect(page.get_by_role("group", name="Level")).to_be_visible()


def test_a_long_name_keeps_both_ends_and_is_told_whole_to_who_points_at_it(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?namespace=long")
    cards = page.locator(".card[data-kind=dataset]")
    expect(cards).to_have_count(2)
    shown = cards.locator(".name.cut[aria-hidden]").all_inner_texts()
    assert {text[-1] for text in shown} == {"a", "b"}
    assert all(text.startswith("warehouse.sales") and "…" in text for text in shown)
    width = (cards.first.bounding_box() or {"width": 0})["width"]
    assert width == pytest.approx(300, abs=1)
    whole = page.locator(".card[data-kind=dataset] + .whole").first
    expect(whole).to_be_hidden()
    cards.first.hover()
    expect(whole).to_be_visible()
    assert whole.inner_text() in LONG_NAMES
    page.mouse.move(1, 1)
    expect(whole).to_be_hidden()
    # Short names do not need so much.
    page.goto("/graph?node=job:past:late")
    box = page.locator(".card").first.bounding_box()
    assert box is not None
    assert box["width"] < 210


def test_the_doctors_own_job_stands_only_where_it_is_asked_for(visit: Visit) -> None:
    page = visit.page
    page.goto("/")
    failed = page.get_by_role("region", name="Table: Failed runs")
    expect(failed).to_contain_text("step_")
    expect(failed).not_to_contain_text("probe")
    page.goto("/graph")
    # All nodes but the two of it; the namespace can be chosen.
    expect(page.get_by_text(f"{JOBS + 5} jobs")).to_be_visible()
    page.get_by_label("Namespace").select_option(CHECKS_NAMESPACE)
    expect(page.locator(".card").filter(has_text="probe").first).to_be_visible()
