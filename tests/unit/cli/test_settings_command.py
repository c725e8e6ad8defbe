"""`headwater settings` lists all settings, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.settings import setting_rows, settings
from headwater.settings import WELL_KNOWN, load

SECRET = "geheim-4711"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in WELL_KNOWN:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_secrets_are_shown_as_set(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_CATALOG__DATABASE_URL", f"postgresql://me:{SECRET}@db/x")
    monkeypatch.setenv("HEADWATER_KAFKA__CLIENT", f'{{"sasl.password": "{SECRET}"}}')
    monkeypatch.setenv("HEADWATER_SPARK__KAFKA_OPTIONS", f'{{"sasl.jaas.config": "{SECRET}"}}')
    monkeypatch.setenv("HEADWATER_KAFKA__USERNAME", "ann")
    monkeypatch.setenv("HEADWATER_KAFKA__SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("HEADWATER_KAFKA__PASSWORD", SECRET)
    result = CliRunner().invoke(settings, arguments, catch_exceptions=False)
    assert SECRET not in result.output
    assert "(set)" in result.output
    assert "sasl.password=(set)" in result.output
    assert "sasl.jaas.config=(set)" in result.output


def test_json_has_name_variables_default_and_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "own:9092")
    result = CliRunner().invoke(settings, ["--json"], catch_exceptions=False)
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    servers = rows["kafka.bootstrap_servers"]
    assert servers["value"] == "own:9092"
    assert servers["default"] == ""
    assert servers["variable"] == "KAFKA_BOOTSTRAP_SERVERS or HEADWATER_KAFKA__BOOTSTRAP_SERVERS"
    assert rows["kafka.port"]["default"] == rows["kafka.port"]["value"] == "9092"


def test_the_table_has_one_line_per_setting_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_path = "/very/long" * 30
    monkeypatch.setenv("HEADWATER_HOME", long_path)
    result = CliRunner().invoke(settings, catch_exceptions=False)
    lines = result.stdout.splitlines()
    assert len(lines) == 1 + len(list(setting_rows(load())))
    assert long_path in lines[1]


def test_a_value_is_not_interpreted_as_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_HOME", "/tmp/[red]x[/red]")
    assert "[red]x[/red]" in CliRunner().invoke(settings, catch_exceptions=False).stdout


def test_every_listed_variable_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = list(setting_rows(load()))
    # Unknown variables are always refused; some settings refuse an empty value.
    values = {
        "kafka.brokers": "3",
        "kafka.security_protocol": "SASL_SSL",
        "kafka.sasl_mechanism": "PLAIN",
        "kafka.token_provider": "tokens:token",
    }
    for row in rows:
        if row.name in {"kafka.username", "kafka.password"}:
            continue  # instead of the provider of tokens
        for variable in row.variable.split(" or "):
            monkeypatch.setenv(variable, row.value or row.default or values.get(row.name, "{}"))
    assert [row.name for row in setting_rows(load())] == [row.name for row in rows]
