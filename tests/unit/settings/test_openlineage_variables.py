"""Variables of OpenLineage are defaults; variables of Kubernetes are not settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingError
from headwater.openlineage.transport import CatalogClient
from headwater.settings import load

CONFIG = """\
transport:
  type: http
  url: https://file.example.com
  endpoint: events
  timeout: 7
  auth:
    type: api_key
    apiKey: from-the-file
"""


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> Path:
    file = tmp_path / "openlineage.yml"
    file.write_text(text)
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(file))
    return file


def key() -> str | None:
    secret = load().catalog.api_key
    return None if secret is None else secret.get_secret_value()


def test_address_and_key_are_those_of_openlineage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://lineage:5000")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "/custom/lineage")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    settings = load()
    assert settings.catalog_url == "http://lineage:5000"
    assert key() == "secret"
    assert settings.lineage.namespace == "shop"
    assert CatalogClient.from_settings(settings)._endpoint == "/custom/lineage"


@pytest.mark.parametrize(("value", "enabled"), [("true", False), ("TRUE", False), ("false", True)])
def test_openlineage_can_be_disabled(
    value: str, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_DISABLED", value)
    assert load().lineage.enabled is enabled


def test_the_file_of_openlineage_is_read_and_variables_take_precedence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config(monkeypatch, tmp_path, CONFIG)
    settings = load()
    assert (settings.catalog.url, settings.catalog.endpoint, key()) == (
        "https://file.example.com",
        "events",
        "from-the-file",
    )
    assert settings.lineage.request_seconds == 7
    monkeypatch.setenv("OPENLINEAGE_URL", "http://variable:5000")
    assert load().catalog.url == "http://variable:5000"


def test_settings_of_headwater_take_precedence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config(monkeypatch, tmp_path, CONFIG)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://openlineage:5000")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    Path("headwater.toml").write_text(
        '[catalog]\nurl = "http://toml:5000"\n[lineage]\nenabled = true\n'
    )
    assert load().catalog.url == "http://toml:5000"
    assert load().lineage.enabled is True
    monkeypatch.setenv("MARQUEZ_URL", "http://marquez:5000")
    assert load().catalog.url == "http://marquez:5000"
    monkeypatch.setenv("HEADWATER_CATALOG__URL", "http://headwater:5000")
    assert load().catalog.url == "http://headwater:5000"


@pytest.mark.parametrize(
    ("text", "logged"),
    [
        ("transport: {type: kafka, topic: x}", "transport type 'kafka' is not supported"),
        ("transport: {type: http, url: 'http://a', compression: gzip}", "ignored: compression"),
        ("transport: {type: http, url: 'http://a', auth: {type: jwt}}", "auth type 'jwt'"),
        ("{", "not valid YAML"),
        ("- 1", "not a YAML mapping"),
    ],
)
def test_what_is_not_supported_is_logged_and_does_not_stop_a_job(
    text: str,
    logged: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = config(monkeypatch, tmp_path, text)
    load()
    assert logged in caplog.text
    assert str(file) in caplog.text


def test_a_missing_file_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_CONFIG", "no-such-file.yml")
    assert load().catalog.url is None
    assert "no-such-file.yml is ignored: FileNotFoundError" in caplog.text


KUBERNETES = {
    "HEADWATER_SERVICE_HOST": "10.0.0.1",
    "HEADWATER_SERVICE_PORT": "5000",
    "HEADWATER_SERVICE_PORT_HTTP": "5000",
    "HEADWATER_PORT": "tcp://10.0.0.1:5000",
    "HEADWATER_PORT_5000_TCP": "tcp://10.0.0.1:5000",
    "HEADWATER_PORT_5000_TCP_ADDR": "10.0.0.1",
    "HEADWATER_PORT_5000_TCP_PORT": "5000",
    "HEADWATER_PORT_5000_TCP_PROTO": "tcp",
    "HEADWATER_PORT_9125_UDP_ADDR": "10.0.0.1",
    "HEADWATER_CATALOG_SERVICE_HOST": "10.0.0.2",
    "HEADWATER_CATALOG_SERVICE_PORT_HTTP": "80",
    "HEADWATER_CATALOG_PORT": "tcp://10.0.0.2:80",
    "HEADWATER_KAFKA_PORT_9092_TCP_ADDR": "10.0.0.3",
}


@pytest.mark.parametrize("name", KUBERNETES)
def test_a_variable_of_a_kubernetes_service_is_ignored(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load()
    monkeypatch.setenv(name, KUBERNETES[name])
    assert load() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADWATER_KAFKA_PORT", "9092"),
        ("HEADWATER_PORT", "5000"),
        ("HEADWATER_HOST", "10.0.0.1"),
        ("HEADWATER_CATALOG__SERVICE_HOST", "10.0.0.1"),
    ],
)
def test_a_mistyped_setting_is_still_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingError):
        load()
