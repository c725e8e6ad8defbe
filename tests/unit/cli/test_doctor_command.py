"""`headwater doctor` reports the result of every check, failures included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fault_server import garbage, serving, status

from headwater.cli import doctor as command
from headwater.cli.app import main
from headwater.collector.validation import check_write_arrives
from headwater.errors import CheckFailedError
from headwater.service import doctor as checkup
from headwater.service.check_result import CheckResult
from headwater.service.doctor import run_spark_checks
from headwater.settings import Settings, load

CLOSED = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _on_a_machine_without_services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MARQUEZ_URL", CLOSED)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


def doctor(*options: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["doctor", *options])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_without_a_catalog_every_check_has_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("--spark", "--json") == 1
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert {
        "python",
        "java",
        "disk",
        "kafka",
        "transport",
        "spool",
        "lineage",
        "rows",
    } <= found.keys()
    for name in ("transport", "lineage"):
        assert found[name]["text"].startswith(f"{CLOSED} can't be reached")
        assert "MARQUEZ_URL" in found[name]["hint"]
    assert found["spool"]["ok"]


def test_disabled_lineage_is_not_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_LINEAGE__ENABLED", "false")
    doctor("--spark", "--json")
    found = [each for each in json.loads(capsys.readouterr().out) if each["name"] == "lineage"]
    off = (True, "switched off (lineage.enabled)")
    assert [(each["ok"], each["text"]) for each in found] == [off, off]
    assert check_write_arrives(load(lineage={"enabled": False})) == off[1]


def test_results_are_printed_immediately(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    def slow(settings: Settings) -> Iterator[CheckResult]:
        yield CheckResult("first", False, "it is missing", "create it")
        shown.append(capsys.readouterr().out)
        yield CheckResult("second", True, "it exists")

    monkeypatch.setattr(command, "run_checks", slow)
    assert doctor() == 1
    assert "it is missing" in shown[0]
    assert "hint: create it" in shown[0]
    assert "second" in capsys.readouterr().out


def test_an_exception_in_a_check_is_a_failure_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(settings: Settings) -> Iterator[CheckResult]:
        yield CheckResult("kafka", True, "runs")
        raise ModuleNotFoundError("No module named 'psutil'\nand more")

    def fails(settings: Settings) -> str:
        raise OSError("disk error")

    monkeypatch.setattr(checkup, "_services", broken)
    monkeypatch.setattr(checkup, "_jars", fails)
    found = {each.name: each for each in checkup.run_checks(load())}
    assert found["jars"] == CheckResult("jars", False, "OSError: disk error")
    assert found["services"].text == "ModuleNotFoundError: No module named 'psutil'"
    assert {"kafka", "disk", "spool"} <= found.keys()


def test_spark_is_not_started_if_the_catalog_returns_an_error() -> None:
    with serving(status(401)) as server:
        (found,) = run_spark_checks(load(catalog={"url": server.url}))
        assert (found.ok, found.hint) == (False, "check MARQUEZ_API_KEY")
    with serving(garbage) as server, pytest.raises(CheckFailedError, match=server.url):
        check_write_arrives(load(catalog={"url": server.url}))
    (unusable,) = run_spark_checks(load(catalog={"url": "http://a..b:5000"}))
    assert "MARQUEZ_URL" in unusable.text
