"""Metrics of the service: `/metrics`, current values and history."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.catalog_support import (
    Catalog,
    bearer,
    fresh_database,
    guarded,
    run_event,
    run_id,
    running,
)
from tests.support import Headwater
from tests.waiting import wait_until

from headwater.catalog.store.keys import create_key
from headwater.model import CHECKS_NAMESPACE
from headwater.settings import Settings

NAMED_IN_DASHBOARDS = (
    "headwater_job_success_ratio",
    "headwater_lineage_coverage_ratio",
    "headwater_dataset_freshness_seconds",
    "headwater_datasets",
    "headwater_runs",
    "headwater_consumer_lag_records",
    "headwater_late_records",
    "headwater_dead_lettered_records",
    "headwater_out_of_order_records",
    "headwater_ingest_events",
    "headwater_ingest_seconds",
    "headwater_alerts_evaluated_timestamp_seconds",
)


@pytest.fixture(scope="module")
def catalog(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A service with series for three names."""
    few = headwater_settings.catalog.model_copy(update={"max_named": 3})
    settings = headwater_settings.model_copy(update={"catalog": few})
    with running(settings, fresh_database(postgres)) as service:
        yield service


def families(catalog: Catalog) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by family and labels."""
    text = catalog.call("GET", f"{catalog.url}/metrics").text
    return {
        family.name: {tuple(s.labels.values()): s.value for s in family.samples}
        for family in text_string_to_metric_families(text)
    }


def metrics_with(catalog: Catalog, **expected: Any) -> Any:
    """The current metrics, once they have these values: a slow machine updates them less often."""

    def current() -> Any:
        now = catalog.get("/metrics/now")
        return now if {name: now[name] for name in expected} == expected else None

    return wait_until(current, what=f"metrics with {expected}")


def test_an_empty_service_has_every_family_and_null_ratios(
    catalog: Catalog,
) -> None:
    found = families(catalog)
    assert set(NAMED_IN_DASHBOARDS) <= set(found)
    assert math.isnan(found["headwater_job_success_ratio"][()])
    assert found["headwater_datasets"] == {(): 0.0}
    assert set(found["headwater_runs"]) == {
        ("NEW",),
        ("RUNNING",),
        ("COMPLETED",),
        ("ABORTED",),
        ("FAILED",),
    }
    now = catalog.get("/metrics/now")
    assert now["jobSuccessRatio"] is None
    assert now["lineageCoverageRatio"] == {"jobs": None, "records": None}
    assert now["consumerLag"] is None
    none = dict.fromkeys(("firing", "pending", "error", "no data", "ok"), 0)
    assert catalog.get("/alerts") == {"alerts": [], "totalCount": 0, "states": none}
    assert catalog.get("/alerts/incidents?limit=5") == {"incidents": []}


def test_metrics_are_computed_from_events(catalog: Catalog, headwater: Headwater) -> None:
    progress = {"rowsIn": 10, "rowsOut": 8, "rowsWithLineage": 6, "lateRows": 1}
    more = {"deadLettered": 2, "orderViolations": 3, "lag": 40}
    earlier = {name: count // 2 for name, count in progress.items()}
    for n in range(5):
        job, run = f"job {n}", run_id(f"metrics {n}")
        final = {"headwater_progress": {**progress, **more}}
        half = {"headwater_progress": {**earlier, "lag": 90}}
        kind = "FAIL" if n == 0 else "RUNNING" if n > 3 else "COMPLETE"
        outputs = [f"out {n}"] if n else []
        catalog.send(
            # Counts are cumulative: the later event counts, in any order of arrival.
            run_event(
                kind,
                job=job,
                run=run,
                at="2026-01-02T00:00:00Z",
                inputs=["in"],
                outputs=outputs,
                run_facets=final,
                job_facets={"jobType": {"processingType": "STREAMING"}},
            ),
            run_event("START", job=job, run=run, run_facets=half),
        )
    catalog.send(run_event("START", job="nothing known", run=run_id("nothing")))
    # An aborted run is neither a success nor a failure.
    stopped = run_id("stopped")
    catalog.send(run_event("ABORT", job="job 1", run=stopped, inputs=["in"], outputs=["out 1"]))
    now = metrics_with(catalog, jobs=6)
    assert now["jobSuccessRatio"] == 0.75
    assert now["lineageCoverageRatio"] == {"jobs": 4 / 6, "records": 30 / 40}
    assert now["jobsWithoutLineage"] == 1
    assert (now["datasets"], now["jobs"]) == (5, 6)
    assert now["consumerLag"] == 40
    assert (now["lateRecords"], now["deadLettered"], now["orderViolations"]) == (5, 10, 15)
    assert now["eventsPerSecond"] > 0
    assert now["ingestSeconds"]["p99"] >= now["ingestSeconds"]["p50"] > 0
    found = families(catalog)
    assert found["headwater_lineage_coverage_ratio"] == {("jobs",): 4 / 6, ("records",): 0.75}
    assert found["headwater_out_of_order_records"] == {(): 15.0}
    assert found["headwater_ingest_events"] == {(): 12.0}
    printed = json.loads(headwater("metrics", "--json", MARQUEZ_URL=catalog.url).stdout)
    assert printed["deadLettered"] == 10


def test_jobs_are_counted_by_the_row_lineage_of_their_last_run(
    catalog: Catalog, headwater: Headwater
) -> None:
    def send(job: str, hour: int, facet: Any) -> None:
        facets = {"headwater_rowLineage": facet} if facet else {}
        at, run = f"2026-01-02T{hour:02d}:00:00Z", run_id(f"{job} {hour}")
        catalog.send(run_event(job=job, run=run, at=at, outputs=[job], run_facets=facets))

    tricky = ['"coverage":"exact"', "\x00"]
    send("rows exact", 1, {"coverage": "off", "steps": [], "reason": "switched off"})
    send("rows exact", 2, {"coverage": "exact", "steps": []})
    send("rows in ranges", 1, {"steps": tricky, "coverage": "ranges"})
    send("rows not known", 1, {"coverage": "unknown", "steps": ["MapInPandas"]})
    for number, other in enumerate((None, {"coverage": "all"}, {"coverage": 7}, "exact")):
        send(f"rows without {number}", 1, other)
    expected = {("exact",): 1, ("ranges",): 1, ("unknown",): 1, ("off",): 0}
    wait_until(lambda: families(catalog)["headwater_jobs_row_lineage"] == expected)
    # Without the runs of jobs of other tests.
    others = {"HEADWATER_KAFKA__RUNS_TOPIC": "none", "MARQUEZ_URL": catalog.url}
    listed = headwater("doctor", "--json", **others).stdout
    *_, jobs = (each["text"] for each in json.loads(listed) if each["name"] == "rows")
    assert "rows not known is unknown (MapInPandas)" in jobs
    assert 'rows in ranges is ranges ("coverage":"exact", ?)' in jobs
    assert "rows exact is" not in jobs


def test_label_values_are_limited_and_others_share_one_series(catalog: Catalog) -> None:
    catalog.send(run_event(job="long", run=run_id("long"), outputs=["x" * 2000]))
    freshness = families(catalog)["headwater_dataset_freshness_seconds"]
    assert len(freshness) == 4
    assert ("other", "") in freshness or ("", "other") in freshness
    lag = families(catalog)["headwater_consumer_lag_records"]
    assert list(lag.values()) == [40.0]
    text = catalog.call("GET", f"{catalog.url}/metrics").text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", text), "an id is in a label"
    assert max(map(len, text.splitlines())) < 1000


def test_the_stalest_dataset_counts_also_without_its_own_series(
    catalog: Catalog, headwater: Headwater
) -> None:
    for number in range(3):
        catalog.send(run_event(job=f"new {number}", outputs=[f"new {number}"]))
    old = run_event(job="old", at="2020-01-01T00:00:00Z", outputs=["stale"])
    # The oldest datasets have their own series, and this one is not among them.
    catalog.send(old)
    with psycopg.connect(catalog.database) as connection:
        connection.execute("UPDATE datasets SET created_at = now() WHERE name = 'stale'")
    days = (datetime.now(UTC) - datetime(2020, 1, 1, tzinfo=UTC)).days
    least = 86_400 * days
    wait_until(
        lambda: (catalog.get("/metrics/now")["stalestOtherSeconds"] or 0) >= least,
        what="the value of all others",
    )
    output = headwater("metrics", MARQUEZ_URL=catalog.url).stdout
    assert re.search(rf"longest without a write +({days}|{days + 1}) d", output)
    assert f"and others, the oldest {days} d ago" in output or f"oldest {days + 1} d ago" in output


def test_invalid_progress_is_refused_with_the_field(catalog: Catalog) -> None:
    for wrong in ({"rowsOut": -1}, {"lag": "many"}, {"rowsIn": 2**60}, {"lateRows": True}):
        event = run_event(run_facets={"headwater_progress": {"rowsIn": 1, "rowsOut": 1, **wrong}})
        response = catalog.call("POST", "/lineage", json=event)
        assert response.status_code == 422
        assert f"headwater_progress.{next(iter(wrong))} must be" in response.text


def test_totals_do_not_decrease_when_retention_deletes_runs(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    kept = headwater_settings.catalog.model_copy(update={"retention_days": 1})
    settings = headwater_settings.model_copy(update={"catalog": kept})
    facets = {
        "headwater_progress": {"rowsIn": 4, "rowsOut": 4, "rowsWithLineage": 2, "lateRows": 7}
    }
    with running(headwater_settings, database) as catalog:
        for n in range(3):
            run = run_id(f"removed {n}")
            at = f"2026-01-01T00:0{n}:00Z"
            catalog.send(run_event(run=run, at=at, run_facets=facets))
        before = metrics_with(catalog, lateRecords=21)
    with running(settings, database) as catalog:
        wait_until(lambda: len(catalog.rows("SELECT FROM runs")) == 1)
        after = metrics_with(catalog, runsByState={**before["runsByState"], "COMPLETED": 1})
        assert len(catalog.rows("SELECT FROM run_progress")) == 1
    assert before["lateRecords"] == after["lateRecords"] == 21
    assert before["lineageCoverageRatio"]["records"] == 0.5
    assert after["lineageCoverageRatio"]["records"] == 0.5


def test_the_job_of_the_doctor_does_not_count(headwater_settings: Settings, postgres: str) -> None:
    with running(headwater_settings, fresh_database(postgres)) as catalog:
        catalog.send(
            run_event(job="complete", inputs=["a"], outputs=["b"]),
            run_event("FAIL", job="lineage_arrives", namespace=CHECKS_NAMESPACE),
        )
        found = metrics_with(catalog, jobs=1)
    assert found["lineageCoverageRatio"]["jobs"] == 1
    assert found["jobSuccessRatio"] == found["recentJobSuccessRatio"] == 1
    assert sum(found["runsByState"].values()) == 1


def test_history_has_one_point_per_minute_and_fewer_over_a_long_time(catalog: Catalog) -> None:
    with psycopg.connect(catalog.database) as connection:
        connection.execute(
            "INSERT INTO metric_points (at, events, figures) "
            "SELECT date_trunc('minute', now()) - make_interval(mins => n), 2, "
            '\'{"datasets": 3, "lag": 7, "stalestSeconds": 60}\' FROM generate_series(0, 9000) n '
            # The service may have recorded a minute that has just ended.
            "ON CONFLICT DO NOTHING"
        )
    day = catalog.get("/metrics/history?hours=24")["points"]
    assert 1439 <= len(day) <= 1440
    assert day[0]["at"] < day[-1]["at"]
    names = ("datasets", "lag", "events", "stalestSeconds")
    assert [day[0][name] for name in names] == [3, 7, 2, 60]
    week = catalog.get("/metrics/history?hours=168")["points"]
    assert 1200 < len(week) <= 1440
    assert sum(point["events"] for point in week[:-1]) > 2 * 8000
    assert catalog.call("GET", "/metrics/history?hours=0").status_code == 400


def test_metrics_require_the_permission_to_read_the_catalog(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    with running(guarded(headwater_settings), database) as catalog:
        _, reader = create_key(database, "prometheus", "read", None)
        _, limited = create_key(database, "team", "read", "team")
        paths = (f"{catalog.url}/metrics", "/metrics/now", "/metrics/history", "/alerts")
        for path in (*paths, "/alerts/incidents"):
            assert catalog.call("GET", path).status_code == 401
            assert catalog.call("GET", path, headers=bearer(limited)).status_code == 403
            assert catalog.call("GET", path, headers=bearer(reader)).status_code == 200
