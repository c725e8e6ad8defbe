"""Names in alert messages: anyone who can name a topic chooses them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from tests.alert_support import rule, states, write_rules
from tests.catalog_support import Catalog, fresh_database, run_event
from tests.support import environment
from tests.waiting import wait_until

from headwater.catalog.alerting.messages import subject_text
from headwater.testing.fixtures import local_settings

# Divided into brokers in all possible ways, 60 commas would take years.
NAMES = [
    "1" + "," * 60,
    "1" + ",:" * 200,
    "1" + ",1" * 200 + "\n",
    "," * 2000,
    ":" * 2000,
    "1,:1" * 99,
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_separators_is_shown_at_once(name: str) -> None:
    began = time.thread_time()
    shown = subject_text(f"dataset:kafka://h:{name}")
    assert time.thread_time() - began < 0.5
    assert shown.startswith("dataset")


def test_brokers_of_a_namespace_are_still_divided_from_the_name() -> None:
    assert subject_text("dataset:kafka://a:9092,b:9093,c:visits") == (
        "dataset visits (kafka://a:9092,b:9093,c)"
    )


def test_names_of_separators_do_not_stop_the_service(postgres: str, tmp_path: Path) -> None:
    """In a separate process: a service that stops would stop this test as well."""
    rules = write_rules(tmp_path / "rules.yml", rule("failed", "job_run.state == 'FAILED'"))
    home = local_settings(tmp_path / "home")
    database = fresh_database(postgres)
    changes = {
        "HEADWATER_CATALOG__DATABASE_URL": database,
        "HEADWATER_ALERTS__FILE": str(rules),
        "HEADWATER_ALERTS__INTERVAL_SECONDS": "0.3",
    }
    command = [sys.executable, "-m", "headwater", "serve"]
    with subprocess.Popen(command, env=environment(home, **changes)) as process:
        catalog = Catalog(home.catalog.port, database)
        try:
            wait_until(lambda: _health(catalog), what="the service", pause_seconds=0.1)
            named = [{"namespace": "kafka://h", "name": each, "facets": {}} for each in NAMES]
            catalog.send(
                run_event("START", job="poison", outputs=named),
                run_event("FAIL", job="poison", outputs=named, at="2026-01-01T00:01:00Z"),
            )
            wait_until(
                lambda: states(catalog).get("failed job:tests:poison") == "firing",
                what="the incident",
            )
            for _ in range(10):
                assert _health(catalog), "no response within one second"
                time.sleep(0.05)
            (incident,) = catalog.get("/alerts/incidents")["incidents"]
            assert incident["downstreamCount"] == len(NAMES)
            process.terminate()
            assert process.wait(10) == 0
        finally:
            process.kill()


def _health(catalog: Catalog) -> bool:
    try:
        return catalog.call("GET", "/health", timeout=1).ok
    except requests.RequestException:
        return False
