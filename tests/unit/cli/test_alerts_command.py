"""`headwater alerts`: what it prints, how it ends, and that no address is ever shown."""

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
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["alerts"][0]["about"] == "job"
    assert found["warnings"] == [
        "no setting defines channel 'team', named by failed: set HEADWATER_ALERTS__CHANNELS__TEAM"
    ]
    assert "warning: no setting defines channel 'team'" in told.err


def test_a_channel_that_is_defined_in_any_case_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The file that the service would read, too.
    Path("headwater-alerts.yml").write_text(GOOD)
    Path("headwater.toml").write_text('[alerts.channels]\nTeam = "slack://s3cret/b/c"\n')
    assert run("check") == 0
    told = capsys.readouterr()
    assert "failed  job    job_run.state == 'FAILED'  team" in told.out
    assert "warning" not in told.err
    assert "s3cret" not in told.out + told.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alerts: [{name: a, condition: 'job_run.stat == 1'}]", "position 1:8"),
        ("alerts: [", "not YAML"),
    ],
)
def test_a_mistake_is_bad_input(text: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.yml").write_text(text)
    assert run("check", "rules.yml") == 2
    assert reason in capsys.readouterr().err


def test_no_file_and_no_channel_are_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check") == 2
    assert run("check", "nowhere.yml") == 2
    assert run("test", "nobody") == 2
    assert "HEADWATER_ALERTS__CHANNELS__NOBODY" in capsys.readouterr().err


def test_a_channel_is_tried_under_the_same_guard(
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
    told = capsys.readouterr()
    assert '"kind": "webhook"' in told.out
    assert "answered 503" in told.err
    assert "s3cret" not in told.out + told.err


def test_a_service_that_does_not_answer_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARQUEZ_URL", f"http://127.0.0.1:{free_port()}")
    assert run("list") == 3
    assert run("watch", "--seconds", "0") == 0
    told = capsys.readouterr()
    assert told.out.startswith("unreachable  lineage service")
    assert "MARQUEZ_URL" in told.err


def test_watching_tells_of_subjects_and_not_of_the_whole_besides() -> None:
    whole, part = ("a", ""), ("a", "job:ns:x")
    firing = {"name": "a", "subject": "job:ns:x", "state": "firing"}
    known: dict[tuple[str, str], str] = {whole: "no data"}
    ok = {"name": "a", "subject": None, "state": "ok"}
    looks: list[dict[tuple[str, str], dict[str, Any]]] = [{part: firing}, {whole: ok}]
    told = [[(c["subject"], c["state"]) for c in _changes(known, look)] for look in looks]
    assert told == [[("job:ns:x", "firing")], [("job:ns:x", "ok")]]


def test_watching_tells_each_change_once() -> None:
    def found(**states: str) -> dict[tuple[str, str], dict[str, Any]]:
        return {(n, ""): {"name": n, "subject": None, "state": s} for n, s in states.items()}

    down = {("lineage service", ""): {"name": "lineage service", "state": "unreachable"}}
    known: dict[tuple[str, str], str] = {}
    looks = [found(a="ok"), found(a="firing", b="ok"), found(a="firing"), down, down, found(a="ok")]
    told = [[(c["name"], c["state"]) for c in _changes(known, look)] for look in looks]
    assert told == [
        [("a", "ok")],
        [("a", "firing"), ("b", "ok")],
        [],
        [("lineage service", "unreachable")],
        [],
        [("a", "ok"), ("lineage service", "ok")],
    ]
