"""The Grafana dashboard and the Prometheus rules are valid and use existing metrics."""

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

from headwater.catalog.metrics.prometheus import MetricsSnapshot, exposition
from headwater.catalog.metrics.values import CatalogMetrics, IngestMetrics

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "dashboards" / "headwater-grafana.json"
RULES = ROOT / "dashboards" / "headwater-prometheus.yml"
# Grafana replaces them with a duration.
_GRAFANA_TIMES = re.compile(r"\$__rate_interval")


def dashboard() -> Any:
    return json.loads(GRAFANA.read_text())


def rules() -> list[Any]:
    content = yaml.safe_load(RULES.read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def exposed_series() -> set[str]:
    """Every series of an empty service, histogram buckets included."""
    snapshot = MetricsSnapshot(CatalogMetrics(datetime.now(UTC)), IngestMetrics(), "0")
    empty = exposition(snapshot).decode()
    names: set[str] = set()
    for family in text_string_to_metric_families(empty):
        names |= {family.name, f"{family.name}_total"} | {each.name for each in family.samples}
    return names | {rule["record"] for rule in rules() if "record" in rule}


EXPRESSIONS = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
EXPRESSIONS += [rule["expr"] for rule in rules()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_promql_with_metrics_of_the_service(expression: str) -> None:
    text = _GRAFANA_TIMES.sub("5m", expression).replace("$job", ".*")
    promql_parser.parse(text)
    used = set(re.findall(r"\bheadwater[a-z_:]*", text))
    assert used
    assert used <= exposed_series()


def test_every_panel_has_a_title_a_position_and_a_query() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["targets"]
        position = panel["gridPos"]
        assert position["x"] + position["w"] <= 24
        cells = {
            (x, y)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        }
        assert not taken & cells, f"{panel['title']} overlaps another panel"
        taken |= cells


def test_the_four_most_important_metrics_are_in_the_first_row() -> None:
    first = [p["title"] for p in dashboard()["panels"] if p["gridPos"]["y"] == 0]
    assert first == ["Job success", "Lineage coverage", "Datasets", "Alerts"]


def test_every_rule_has_the_fields_that_prometheus_requires() -> None:
    names = [rule.get("alert") or rule["record"] for rule in rules()]
    assert len(set(names)) == len(names) > 5
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert rule["annotations"]["summary"]
        assert set(rule) <= {"alert", "record", "expr", "for", "labels", "annotations"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on the PATH")
def test_promtool_accepts_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)
