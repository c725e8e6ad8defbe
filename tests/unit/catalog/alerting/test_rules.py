"""The rules file: keys, errors with lines, and limits against hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.catalog.alerting.rules import (
    MAX_BYTES,
    MAX_RULES,
    parse_duration,
    parse_rules,
    read_rules,
)
from headwater.errors import AlertRulesError

RULES = b"""
# Example alerting configuration
alerts:
  - name: lineage_job_failure
    condition: job_run.state == 'FAILED'
    notification: slack_data_team
    
  - name: missing_lineage_data  
    condition: job_without_lineage_percentage > 20
    notification: email_data_governance
    
  - name: marquez_service_down
    condition: marquez_health_check_failed
    notification: page_oncall
"""  # noqa: W291, W293 - trailing spaces are allowed


def rules_of(text: str) -> list[str]:
    return [rule.name for rule in parse_rules(text.encode(), "rules.yml")]


def test_an_empty_file_is_rejected_because_it_may_be_incomplete(tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    for content in ("", "\n"):
        file.write_text(content)
        with pytest.raises(AlertRulesError, match=r"rules\.yml is empty"):
            read_rules(file)
    file.write_text("alerts: []")
    assert read_rules(file) == []


def test_only_name_and_condition_are_required() -> None:
    first, second, third = parse_rules(RULES, "rules.yml")
    assert first.name == "lineage_job_failure"
    assert first.condition.text == "job_run.state == 'FAILED'"
    assert first.channels == ("slack_data_team",)
    assert (first.severity, first.hold_seconds) == ("warning", 0.0)
    assert (second.name, third.channels) == ("missing_lineage_data", ("page_oncall",))


def test_all_keys_are_read() -> None:
    (rule,) = parse_rules(
        b"""
alerts:
  - name: stale
    condition: >
      dataset.freshness_seconds > 3600
    for: 1h30m
    keep_firing_for: 90
    severity: critical
    summary: "Not written: since when"
    runbook: https://wiki.example/stale
    notification: [Mail, PAGER, mail]
""",
        "rules.yml",
    )
    assert (rule.hold_seconds, rule.keep_seconds) == (5400.0, 90.0)
    assert rule.severity == "critical"
    assert rule.summary == "Not written: since when"
    assert rule.runbook == "https://wiki.example/stale"
    assert rule.channels == ("mail", "pager")


@pytest.mark.parametrize("text", ["", "alerts:", "alerts: []", "# nothing\n"])
def test_a_file_without_alerts_has_none(text: str) -> None:
    assert rules_of(text) == []


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("alerts: [{name: a}]", 1, "needs 'condition'"),
        ("alerts:\n- condition: 'true'", 2, "needs 'name'"),
        ("alerts:\n- {name: a, condition: 'true', channel: b}", 2, "unknown key 'channel'"),
        ("alerts:\n- {name: a, condition: 'true', name: b}", 2, "duplicate key 'name'"),
        ("alerts:\n- {name: a, condition: 'jobs >'}", 2, "condition of 'a', position 1:7"),
        ("alerts:\n- {name: a, condition: [1]}", 2, "must be a string"),
        ("alerts:\n- {name: a, condition: 'true', for: soon}", 2, "'for' must be a time"),
        ("alerts:\n- {name: a, condition: 'true', for: 31d}", 2, "at most 30d"),
        ("alerts:\n- {name: a, condition: 'true', severity: bad}", 2, "severity must be"),
        ("alerts:\n- {name: a, condition: 'true', notification: {x: y}}", 2, "name of a channel"),
        ("alerts:\n- {name: a, condition: 'true'}\n- {name: a, condition: 'true'}", 3, "line 2"),
        ("alerts:\n- {name: '\\n', condition: 'true'}", 2, "a name has"),
        ('alerts:\n- {name: a, condition: "true",\n   summary: "x\\0"}', 3, "'summary' contains"),
        ('alerts:\n- {name: a, condition: "true", runbook: "\\ud800"}', 2, "U+D800"),
        ("alerts:\n- {name: a, condition: \"'\\e' == 'x'\"}", 2, "condition of 'a' contains"),
        ('alerts:\n- {name: a, condition: "true", notification: "a\\x07"}', 2, "U+0007"),
        ("alerts: {a: b}", 1, "must be a list"),
        ("rules: []", 1, "unknown key 'rules'"),
        ("- a", 1, "must be a mapping"),
        ("alerts: [\n\n  }", 3, "not YAML"),
        ("alerts:\n\t- a", 2, "not YAML"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(AlertRulesError) as error:
        rules_of(text)
    assert reason in error.value.message
    assert error.value.attributes["line"] == line
    assert f"rules.yml, line {line}" in error.value.message


@pytest.mark.timeout(20)
def test_nested_aliases_are_not_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    with pytest.raises(AlertRulesError, match="unknown key 'a0'"):
        rules_of("\n".join(lines))
    nested = "\n".join(["base: &b [1]", "alerts: [*b]"])
    with pytest.raises(AlertRulesError):
        rules_of(nested)


def test_no_object_is_constructed_from_a_tag() -> None:
    evil = "alerts:\n- name: !!python/object/apply:os.system ['exit 1']\n  condition: 'true'"
    with pytest.raises(AlertRulesError, match="'name' must be a string"):
        rules_of(evil)


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"alerts: \xff", b"\x00", b"a: &x\nb: *y", b"%YAML 9.9\n---\na"],
    ids=["deep", "not UTF-8", "NUL", "unknown alias", "version"],
)
def test_invalid_yaml_is_rejected(content: bytes) -> None:
    with pytest.raises(AlertRulesError):
        parse_rules(content, "rules.yml")


def test_the_size_and_the_number_of_rules_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(AlertRulesError, match="more than"):
        read_rules(path)
    many = "alerts:\n" + "- {name: a, condition: 'true'}\n" * (MAX_RULES + 1)
    with pytest.raises(AlertRulesError, match="more than"):
        rules_of(many)
    with pytest.raises(AlertRulesError, match="nowhere") as error:
        read_rules(tmp_path / "nowhere.yml")
    assert "HEADWATER_ALERTS__FILE" in str(error.value.hint)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172_800)],
)
def test_a_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "5 m", "1.5h", "m", "9" * 50, "²", "1m1h"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_duration(text)
