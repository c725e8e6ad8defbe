"""`headwater alerts`: output, exit codes, and that no channel address is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.alert_support import hook

from headwater.cli.alerts import _changes
from headwater.cli.app import main
from headwater.testing import free_port

GOOD = "alerts:\n- {name: failed, condition: \"job_run.state == 'FAILED'\", notification: Team}\n"


@pytest.fixture(autouse=True)
def _in_an_empty_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["alerts", *arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_a_channel_that_no_setting_defines_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rules.yml").write_text(GOOD)
    assert run("check", "rules.yml", "--json") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["alerts"][0]["about"] == "job"
    assert found["warnings"] == [
        "no setting defines channel 'team', named by failed: set HEADWATER_ALERTS__CHANNELS__TEAM"
    ]
    assert "warning: no setting defines channel 'team'" in captured.err


def test_channel_names_are_case_insensitive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Without an argument, the file that the service reads is checked.
    Path("headwater-alerts.yml").write_text(GOOD)
    Path("headwater.toml").write_text('[alerts.channels]\nTeam = "slack://s3cret/b/c"\n')
    assert run("check") == 0
    captured = capsys.readouterr()
    assert "failed  job    job_run.state == 'FAILED'  team" in captured.out
    assert "warning" not in captured.err
    assert "s3cret" not in captured.out + captured.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alerts: [{name: a, condition: 'job_run.stat == 1'}]", "position 1:8"),
        ("alerts: [", "not YAML"),
    ],
)
def test_an_invalid_rules_file_exits_with_2(
    text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rules.yml").write_text(text)
    assert run("check", "rules.yml") == 2
    assert reason in capsys.readouterr().err


def test_a_missing_file_or_channel_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check") == 2
    assert run("check", "nowhere.yml") == 2
    assert run("test", "missing") == 2
    assert "HEADWATER_ALERTS__CHANNELS__MISSING" in capsys.readouterr().err


def test_a_test_message_is_restricted_like_those_of_the_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with hook() as web:
        monkeypatch.setenv("HEADWATER_ALERTS__CHANNELS__Team", web.url("/s3cret"))
        assert run("test", "team") == 2
        assert web.paths == []
        monkeypatch.setenv("HEADWATER_ALERTS__ALLOW_PRIVATE", '["127.0.0.1/32"]')
        assert run("test", "TEAM", "--json") == 0
        assert web.got[0]["alert"] == "test"
        web.answer = 503
        assert run("test", "team") == 3
    captured = capsys.readouterr()
    assert '"kind": "webhook"' in captured.out
    assert "answered 503" in captured.err
    assert "s3cret" not in captured.out + captured.err


def test_a_service_that_does_not_respond_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARQUEZ_URL", f"http://127.0.0.1:{free_port()}")
    assert run("list") == 3
    assert run("watch", "--seconds", "0") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("unreachable  lineage service")
    assert "MARQUEZ_URL" in captured.err


def test_watch_reports_subjects_and_not_the_summary_as_well() -> None:
    summary, subject = ("a", ""), ("a", "job:ns:x")
    firing = {"name": "a", "subject": "job:ns:x", "state": "firing"}
    known: dict[tuple[str, str], str] = {summary: "no data"}
    ok = {"name": "a", "subject": None, "state": "ok"}
    answers: list[dict[tuple[str, str], dict[str, Any]]] = [{subject: firing}, {summary: ok}]
    changes = [[(c["subject"], c["state"]) for c in _changes(known, each)] for each in answers]
    assert changes == [[("job:ns:x", "firing")], [("job:ns:x", "ok")]]


def test_watch_reports_each_change_once() -> None:
    def alerts(**states: str) -> dict[tuple[str, str], dict[str, Any]]:
        return {(n, ""): {"name": n, "subject": None, "state": s} for n, s in states.items()}

    down = {("lineage service", ""): {"name": "lineage service", "state": "unreachable"}}
    known: dict[tuple[str, str], str] = {}
    answers = [
        alerts(a="ok"),
        alerts(a="firing", b="ok"),
        alerts(a="firing"),
        down,
        down,
        alerts(a="ok"),
    ]
    changes = [[(c["name"], c["state"]) for c in _changes(known, each)] for each in answers]
    assert changes == [
        [("a", "ok")],
        [("a", "firing"), ("b", "ok")],
        [],
        [("lineage service", "unreachable")],
        [],
        [("a", "ok"), ("lineage service", "ok")],
    ]
