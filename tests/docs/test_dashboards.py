"""The Grafana dashboard and the Prometheus rules: well-formed, and about metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from headwater.catalog.metrics.prometheus import ServiceFigures, exposition
from headwater.catalog.metrics.values import Measures, Pace

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "dashboards" / "headwater-grafana.json"
RULES = ROOT / "dashboards" / "headwater-prometheus.yml"
# Grafana puts a time in their place.
_GRAFANA_TIMES = re.compile(r"\$__rate_interval")


def dashboard() -> Any:
    return json.loads(GRAFANA.read_text())


def rules() -> list[Any]:
    found = yaml.safe_load(RULES.read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


def told() -> set[str]:
    """Every series that an empty service tells, and the buckets of its histogram."""
    empty = exposition(ServiceFigures(Measures(datetime.now(UTC)), Pace(), "0")).decode()
    names: set[str] = set()
    for family in text_string_to_metric_families(empty):
        names |= {family.name, f"{family.name}_total"} | {each.name for each in family.samples}
    return names | {rule["record"] for rule in rules() if "record" in rule}


EXPRESSIONS = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
EXPRESSIONS += [rule["expr"] for rule in rules()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_promql_about_metrics_that_the_service_tells(expression: str) -> None:
    text = _GRAFANA_TIMES.sub("5m", expression).replace("$job", ".*")
    promql_parser.parse(text)
    used = set(re.findall(r"\bheadwater[a-z_:]*", text))
    assert used
    assert used <= told()


def test_every_panel_has_a_title_a_place_and_a_question() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["targets"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, f"{panel['title']} lies on another"
        taken |= cells


def test_the_four_figures_that_people_ask_for_first_are_in_the_first_row() -> None:
    first = [p["title"] for p in dashboard()["panels"] if p["gridPos"]["y"] == 0]
    assert first == ["Job success", "Lineage coverage", "Datasets", "Alerts"]


def test_every_rule_has_what_prometheus_asks_for() -> None:
    names = [rule.get("alert") or rule["record"] for rule in rules()]
    assert len(set(names)) == len(names) > 5
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert rule["annotations"]["summary"]
        assert set(rule) <= {"alert", "record", "expr", "for", "labels", "annotations"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on the PATH")
def test_promtool_takes_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)
