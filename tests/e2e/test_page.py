"""The page in a real browser, with the real service and the demo's pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect
from tests.archive_tables import make_archive, write_batch
from tests.browser import Visit
from tests.catalog_support import (
    Catalog,
    fresh_database,
    guarded,
    run_event,
    run_id,
    running,
)
from tests.edge_tables import edge, made, scan, write_index
from tests.page_story import (
    KAFKA,
    LONG,
    MARKUP,
    RECORDS,
    failed_run,
    send_story,
    write_records,
)

from headwater.catalog.store.keys import create_key
from headwater.kafka import read_topic, topic_id
from headwater.service.record_queries import KafkaRecordQueries
from headwater.settings import Settings
from headwater.storage.archive.contract import TOPIC_ID_PROPERTY, TOPIC_PROPERTY, archive_path
from headwater.storage.index.contract import index_path

PREFIX = "page-"
VISITS, DECORATED, REDUCED = (
    f"{PREFIX}{name}" for name in ("visits", "visits-decorated", "visits-reduced")
)
RECORD = f"/record/{REDUCED}/0@5"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def settings(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The test broker with a separate home: an archive and an index of the pipeline."""
    settings = broker.model_copy(update={"home": tmp_path_factory.mktemp("page")})
    rules = "alerts:\n  - name: a_job_failed\n    condition: job_run.state == 'FAILED'\n"
    (settings.home_dir / "headwater-alerts.yml").write_text(rules, encoding="utf-8")
    write_records(settings, PREFIX)
    _archive(settings)
    edges = [
        edge(f"{above}/0@0", f"{below}/0@0", RECORDS)
        for above, below in ((VISITS, DECORATED), (DECORATED, REDUCED))
    ]
    outputs = ((DECORATED, "visits_decorator"), (REDUCED, "visits_reducer"))
    rows = [made(f"{topic}/0@0", RECORDS, job=job) for topic, job in outputs]
    read = [scan(f"{topic}/0@0", RECORDS) for topic in (VISITS, DECORATED, REDUCED)]
    write_index(index_path(settings), [*edges, *rows, *read])
    return settings


def _archive(settings: Settings) -> None:
    """Archive `visits-decorated` like `data_synchronization_job`."""
    path = archive_path(DECORATED, settings)
    properties = {TOPIC_PROPERTY: DECORATED, TOPIC_ID_PROPERTY: topic_id(DECORATED, settings.kafka)}
    make_archive(path, **properties)
    write_batch(path, list(read_topic(DECORATED, settings.kafka, until={0: RECORDS})))


@pytest.fixture(scope="module")
def service(settings: Settings, postgres: str) -> Iterator[Catalog]:
    queries = KafkaRecordQueries(settings, transforms={"visits_reducer", "visits_decorator"})
    with running(settings, fresh_database(postgres), queries=queries, page=True) as found:
        send_story(found.send, datetime.now(UTC), PREFIX)
        yield found


def test_a_record_leads_to_its_source_and_to_its_run(visit: Visit) -> None:
    page = visit.page
    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(f"{REDUCED}/0@5")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(RECORD)))
    cards = page.locator(".recordcard")
    expect(cards).to_have_count(3)
    expect(cards.filter(has_text=f"{DECORATED}/0@5")).to_contain_text("visits_decorator v1.0.0")
    details = page.get_by_role("complementary")
    expect(details).to_contain_text("visits_reducer")
    expect(details).to_contain_text('"visit_id": "visit-5"')
    # Two hops to the left by keyboard, to the source record.
    cards.filter(has_text=f"{REDUCED}/0@5").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(details).to_contain_text("no job: a source record")
    details.get_by_role("link", name="Open record").click()
    expect(page).to_have_url(re.compile(f"/record/{VISITS}/0@5$"))
    page.go_back()
    details.get_by_role("link", name=run_id("visits_decorator")).or_(
        cards.filter(has_text=f"{DECORATED}/0@5")
    ).first.click()
    details.get_by_role("link", name=run_id("visits_decorator")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(run_id("visits_decorator"))
    expect(page.get_by_role("region", name="Table: Offsets by batch")).to_contain_text(
        f"{VISITS}/0: 4 to 7"
    )


def test_impact_is_counted_and_the_replay_is_planned(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/record/{VISITS}/0@5?tab=impact")
    counts = page.get_by_role("region", name="Table: Counts")
    expect(counts.get_by_role("row")).to_have_count(3)
    expect(counts).to_contain_text(REDUCED)
    expect(page.locator(".recordcard")).to_have_count(3)
    page.goto(f"{RECORD}?tab=replay")
    line = f"headwater replay visits_reducer --from {DECORATED} --to {REDUCED}"
    expect(page.get_by_role("textbox", name="Command")).to_have_text(
        f"{line} --inputs-of {REDUCED}/0@5 --dry-run"
    )
    plan = page.get_by_role("region", name="Dry run")
    expect(plan).to_contain_text(f"{DECORATED}/0: 5")
    expect(plan).to_contain_text("1 result of these records")
    page.goto(f"/record/{VISITS}/0@5?tab=replay")
    expect(page.get_by_text("no job wrote this record")).to_be_visible()


def test_selecting_a_column_highlights_its_path(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/graph?node=dataset:{KAFKA}:{REDUCED}")
    page.get_by_role("button", name="Columns").click()
    lists = page.get_by_role("list", name=re.compile("Columns of"))
    expect(lists).to_have_count(3)
    page.get_by_role("list", name=f"Columns of {DECORATED}").get_by_role(
        "button", name="page"
    ).click()
    lit = page.locator("button[data-lit=yes]")
    expect(lit).to_have_count(3)
    assert {text.split("\n")[0] for text in lit.all_inner_texts()} == {"page"}
    expect(page.locator(".lines.columns path[data-state=lit]")).to_have_count(2)
    page.reload()
    expect(lit).to_have_count(3)


def test_the_slider_shows_the_graph_as_it_was(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/graph?node=dataset:{KAFKA}:{VISITS}&depth=20")
    cards = page.locator(".card")
    expect(cards.filter(has_text="daily_report")).to_be_visible()
    expect(cards.filter(has_text="lineage_index")).to_be_visible()
    now = cards.count()
    slider = page.get_by_role("slider", name="As of")
    slider.focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("at=20"))
    expect(cards.filter(has_text="daily_report")).to_have_count(0)
    expect(cards.first).to_be_visible()
    assert cards.count() < now
    page.get_by_role("button", name="Now").click()
    expect(cards).to_have_count(now)


def test_direction_depth_and_namespace_narrow_the_graph(visit: Visit) -> None:
    page = visit.page
    page.goto(f"/graph?node=dataset:{KAFKA}:{DECORATED}")
    cards = page.locator(".card")
    expect(cards.filter(has_text="visits_decorator")).to_contain_text("streaming")
    expect(cards.filter(has_text=re.compile(f"^{REDUCED}"))).to_contain_text("written now")
    page.get_by_role("button", name="Upstream").click()
    expect(cards).to_have_count(3)
    page.get_by_role("button", name="Downstream").click()
    page.get_by_label("Depth").select_option("1")
    expect(cards.filter(has_text="visits_decorator")).to_have_count(0)
    page.get_by_label("Namespace").select_option("headwater")
    expect(cards.filter(has_text="kafka")).to_have_count(1)


def test_a_failed_run_appears_without_a_reload(visit: Visit, service: Catalog) -> None:
    page = visit.page
    page.goto("/")
    failed = page.get_by_role("region", name="Table: Failed runs")
    expect(failed).to_contain_text("the record is 1048899 bytes")
    page.evaluate("() => { window.kept = true }")
    run = "live"
    failed_run(service.send, datetime.now(UTC) + timedelta(seconds=1), PREFIX, run)
    # The page polls every ten seconds.
    expect(failed).to_contain_text(run_id(run)[:8], timeout=25_000)
    assert page.evaluate("() => window.kept") is True


def test_an_alert_appears_without_a_reload(visit: Visit, service: Catalog) -> None:
    page = visit.page
    page.goto("/")
    alerts = page.get_by_role("list", name="Alerts")
    expect(alerts).to_contain_text("a_job_failed")
    expect(alerts).not_to_contain_text("late_job")
    at = datetime.now(UTC).isoformat()
    service.send(run_event("FAIL", job="late_job", namespace="headwater", at=at, outputs=["late"]))
    expect(alerts).to_contain_text("late_job", timeout=10_000)
    expect(alerts).to_contain_text("dataset late")
    expect(page).to_have_title(re.compile(r"^\(2\) Overview"))


def test_names_are_shown_as_text_and_never_as_markup(visit: Visit) -> None:
    page = visit.page
    for address in (
        "/jobs",
        f"/jobs/{quote('odd <b>names</b>', safe='')}/{quote(MARKUP, safe='')}",
    ):
        page.goto(address)
        expect(page.get_by_text(MARKUP).first).to_be_visible()
        assert page.locator("main img, main b:not(.count)").count() == 0
    page.goto(f"/graph?namespace={quote('odd <b>names</b>')}")
    card = page.locator(".card[data-kind=job]")
    expect(card).to_have_count(3)
    expect(card.filter(has_text="\\u202e")).to_be_visible()
    assert "\u202e" not in page.locator("body").inner_text()
    for box in card.all():
        assert (box.bounding_box() or {"width": 1e9})["width"] < 400
    page.goto(f"/jobs/{quote('odd <b>names</b>', safe='')}/{LONG}")
    expect(page.get_by_role("heading", level=1)).to_have_text(LONG)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


VIEWS = [
    "/",
    "/graph",
    f"/graph?node=dataset:{KAFKA}:{VISITS}&chosen=job:headwater:visits_decorator",
    f"/graph?node=dataset:{KAFKA}:{REDUCED}&level=column&column="
    + quote(json.dumps([KAFKA, REDUCED, "page"], separators=(",", ":"))),
    "/record",
    RECORD,
    f"{RECORD}?tab=impact",
    f"{RECORD}?tab=replay",
    "/record/nonsense",
    "/jobs",
    "/jobs/headwater/daily_report",
    f"/runs/{run_id('visits_reducer')}",
    f"/runs/{run_id('enrichment')}",
    "/datasets",
    "/datasets/iceberg/reports.daily",
    "/datasets/iceberg/gone",
    "/alerts",
    "/nowhere",
]


# Colours and widths differ between the two; the elements are the same.
@pytest.mark.parametrize(
    ("scheme", "size"), [("light", None), ("dark", PHONE)], ids=["light", "dark on a phone"]
)
def test_axe_finds_nothing_in_any_view(
    browser: Browser, service: Catalog, scheme: str, size: dict[str, int] | None
) -> None:
    options = {"viewport": size} if size else {}
    visit = Visit(browser, service.url, color_scheme=scheme, **options)
    found = {}
    for address in VIEWS:
        visit.page.goto(address)
        visit.page.wait_for_function("() => !document.querySelector('.loading')")
        expect(visit.page.locator("main h1, main h2").first).to_be_visible()
        violations = visit.violations()
        wide = visit.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        if violations or wide > 0:
            found[address] = [*violations, *([f"{wide} pixels too wide"] if wide > 0 else [])]
    visit.close()
    assert found == {}
    assert visit.page_errors == []


def test_a_service_with_keys_asks_for_one_and_reports_missing_access(
    browser: Browser, settings: Settings, postgres: str
) -> None:
    with running(guarded(settings), fresh_database(postgres), page=True) as service:
        _, key = create_key(service.database, "reader", "read", None)
        _, narrow = create_key(service.database, "narrow", "read", "elsewhere")
        visit = Visit(browser, service.url)
        page = visit.page
        page.goto("/jobs")
        page.get_by_label(re.compile("API key")).fill(narrow)
        page.get_by_role("button", name="Use key").click()
        expect(page.get_by_role("alert")).to_contain_text("This key has no access")
        page.get_by_role("button", name="Use another key").click()
        page.get_by_label(re.compile("API key")).fill(key)
        page.get_by_role("button", name="Use key").click()
        # An empty service shows what to do.
        expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
        page.get_by_role("link", name="Overview", exact=True).click()
        expect(page.get_by_role("heading", name="No events yet")).to_be_visible()
        assert key not in page.evaluate("() => JSON.stringify(localStorage) + document.cookie")
        assert visit.violations() == []
        visit.context.set_offline(True)
        page.get_by_role("link", name="Datasets", exact=True).click()
        expect(page.get_by_text("The service does not respond.").first).to_be_visible()
        visit.close()
