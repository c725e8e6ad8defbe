"""The graph in a real browser: large, as of a past time, and with a stopped stream."""

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
# The number of painted pixels.
PAINTED = """(canvas) => {
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let points = 0;
    for (let at = 3; at < data.length; at += 4) if (data[at]) points++;
    return points;
}"""


def ago(**span: float) -> str:
    return (NOW - timedelta(**span)).isoformat()


def send(service: Catalog, events: list[dict[str, Any]]) -> None:
    assert service.call("POST", "/lineage/batch", json=events).status_code == 200


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    with running(headwater_settings, fresh_database(postgres), page=True) as found:
        send(found, many_events(NOW, JOBS))
        stream: dict[str, Any] = {"job": "stream", "namespace": "stopped", "job_facets": STREAM}
        send(
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
    """The latest failed run."""
    now = ago(seconds=0)
    return run_event("FAIL", job="probe", namespace=CHECKS_NAMESPACE, at=now, outputs=["probed"])


def _two_runs() -> list[dict[str, Any]]:
    """One completed run, and one failed run."""
    first: dict[str, Any] = {"job": "report", "namespace": "past", "run": run_id("past-1")}
    second = {**first, "run": run_id("past-2")}
    return [
        run_event("START", **first, at=ago(days=3), outputs=["report"]),
        run_event("COMPLETE", **first, at=ago(days=3, minutes=-5), outputs=["report"]),
        run_event("START", **second, at=ago(hours=30), outputs=["report"]),
        run_event("FAIL", **second, at=ago(hours=29), outputs=["report"]),
        run_event("COMPLETE", job="late", namespace="past", at=ago(hours=1), inputs=["report"]),
    ]


def test_a_thousand_nodes_are_painted_and_can_be_moved_and_selected(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?namespace=many")
    expect(page.get_by_text(f"{JOBS} jobs, {JOBS + 1} datasets")).to_be_visible()
    surface = page.locator("canvas.surface")
    expect(surface).to_be_visible()
    # Only the first keyboard target is an element: the number of elements does not grow.
    expect(page.locator(".card")).to_have_count(1)
    # No two cards overlap: the painted area is at least that of all cards.
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
    # The visible cards, and as many around them as fit on three further screens.
    assert page.locator(".card").count() < 4 * 90


def test_the_dataset_of_a_stopped_stream_shows_when_it_was_written(visit: Visit) -> None:
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
    slider = page.get_by_role("slider", name="As of")
    expect(slider).to_be_visible()
    return int(slider.get_attribute("max") or 0)


@pytest.mark.parametrize("address", ["/graph?namespace=past", "/graph?node=job:past:report"])
def test_the_slider_shows_states_and_freshness_as_of_that_time(visit: Visit, address: str) -> None:
    page = visit.page
    page.goto(address)
    report, written = (
        page.locator(f".card[data-kind={kind}]").filter(has_text="report")
        for kind in ("job", "dataset")
    )
    expect(report).to_have_attribute("data-state", "FAILED")
    expect(written).to_have_attribute("data-fresh", "stale")
    assert _stops(page) >= 4
    page.get_by_role("slider", name="As of").focus()
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


def test_a_node_that_did_not_exist_then_is_reported(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/graph?node=job:past:late&at={(NOW - timedelta(days=9)).strftime('%FT%TZ')}")
    expect(page.get_by_role("heading", name="It did not exist then")).to_be_visible()
    page.goto(f"/graph?at={(NOW - timedelta(days=9000)).strftime('%FT%TZ')}")
    expect(page.get_by_role("heading", name="No data for that time")).to_be_visible()


def test_the_graph_of_a_namespace_leads_to_depth_direction_and_columns(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?namespace=past")
    expect(page.get_by_text("Select a node, then Around it")).to_be_visible()
    page.locator(".card[data-kind=dataset]").filter(has_text="report").click()
    page.get_by_role("complementary").get_by_role("link", name="Around it").click()
    expect(page.get_by_label("Depth")).to_be_visible()
    expect(page.get_by_role("group", name="Direction")).to_be_visible()
    expect(page.get_by_role("group", name="Level")).to_be_visible()


def test_a_long_name_is_cut_in_the_middle_and_shown_in_full_on_hover(visit: Visit) -> None:
    page = visit.page
    page.goto("/graph?namespace=long")
    cards = page.locator(".card[data-kind=dataset]")
    expect(cards).to_have_count(2)
    shown = cards.locator(".name.cut[aria-hidden]").all_inner_texts()
    assert {text[-1] for text in shown} == {"a", "b"}
    assert all(text.startswith("warehouse.sales") and "…" in text for text in shown)
    width = (cards.first.bounding_box() or {"width": 0})["width"]
    assert width == pytest.approx(300, abs=1)
    full_name = page.locator(".card[data-kind=dataset] + .fullname").first
    expect(full_name).to_be_hidden()
    cards.first.hover()
    expect(full_name).to_be_visible()
    assert full_name.inner_text() in LONG_NAMES
    page.mouse.move(1, 1)
    expect(full_name).to_be_hidden()
    # Cards with short names are narrower.
    page.goto("/graph?node=job:past:late")
    box = page.locator(".card").first.bounding_box()
    assert box is not None
    assert box["width"] < 210


def test_the_job_of_doctor_is_shown_only_in_its_namespace(visit: Visit) -> None:
    page = visit.page
    page.goto("/")
    failed = page.get_by_role("region", name="Table: Failed runs")
    expect(failed).to_contain_text("step_")
    expect(failed).not_to_contain_text("probe")
    page.goto("/graph")
    # All nodes except its two; its namespace can be selected.
    expect(page.get_by_text(f"{JOBS + 5} jobs")).to_be_visible()
    page.get_by_label("Namespace").select_option(CHECKS_NAMESPACE)
    expect(page.locator(".card").filter(has_text="probe").first).to_be_visible()
