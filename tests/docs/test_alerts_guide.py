"""The guides to alerts and metrics match the code."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.catalog.alerting.channels import KINDS
from headwater.catalog.alerting.fields import FIELDS
from headwater.catalog.alerting.rules import parse_rules

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_the_guide_lists_exactly_the_fields_with_their_type_and_meaning() -> None:
    text = (GUIDES / "alerts.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| (bool|int|double|string) \| (.+) \|$", text, re.M)
    assert rows == [(each.name, each.kind, each.meaning) for each in FIELDS.values()]


def test_the_rules_of_the_guide_are_valid() -> None:
    text = (GUIDES / "alerts.md").read_text()
    (example,) = re.findall(r"```yaml\n(alerts:.*?)```", text, re.S)
    assert [rule.name for rule in parse_rules(example.encode(), "guide")] == [
        "lineage_job_failure",
        "missing_lineage_data",
        "marquez_service_down",
        "visits_are_stale",
    ]


def test_the_guide_names_every_kind_of_channel() -> None:
    text = (GUIDES / "alerts.md").read_text().replace("json(s)://", "json:// jsons://")
    assert [kind for kind in KINDS if f"{kind}://" not in text] == []


def test_the_guide_to_metrics_names_every_family() -> None:
    from tests.docs.test_dashboards import exposed_series

    text = (GUIDES / "metrics.md").read_text()
    named = set(re.findall(r"\bheadwater_[a-z_]+", text)) - {"headwater_progress"}
    assert named <= exposed_series()
    assert {name for name in named if name.endswith("_ratio")} == {
        "headwater_job_success_ratio",
        "headwater_lineage_coverage_ratio",
    }
