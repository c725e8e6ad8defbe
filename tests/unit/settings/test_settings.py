"""Settings: precedence of sources, errors, former names and secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

from headwater.errors import SettingError
from headwater.settings import (
    PREFIX,
    WELL_KNOWN,
    Settings,
    child_environment,
    default_ca_file,
    exported,
    load,
    running_under_spark_submit,
)
from headwater.settings.sections import Section

SECRET = "geheim-4711"
DATABASE = f"postgresql://me:{SECRET}@db/lineage"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.upper().startswith(PREFIX) or name in WELL_KNOWN:
            monkeypatch.delenv(name)


def write_file(text: str | bytes) -> None:
    Path("headwater.toml").write_bytes(text if isinstance(text, bytes) else text.encode())


def rejection(**overrides: object) -> SettingError:
    with pytest.raises(SettingError) as caught:
        load(**overrides)
    return caught.value


def leaves(model: type[BaseModel], path: str = "") -> dict[str, str | None]:
    """Every setting with its description."""
    found: dict[str, str | None] = {}
    for key, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            found |= leaves(type(field.default), f"{path}{key}.")
        else:
            found[path + key] = field.description
    return found


def test_defaults_apply_without_file_and_variables() -> None:
    settings = load()
    assert settings.home == Path(".headwater")
    assert settings.bootstrap_servers == "localhost:9092"
    assert settings.catalog.database_url is None


def test_the_precedence_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [load().kafka.bootstrap_servers]
    write_file("[kafka]\nbootstrap_servers = 'file:1'\n")
    seen.append(load().kafka.bootstrap_servers)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "well-known:2")
    seen.append(load().kafka.bootstrap_servers)
    monkeypatch.setenv("HEADWATER_KAFKA__BOOTSTRAP_SERVERS", "variable:3")
    seen.append(load().kafka.bootstrap_servers)
    seen.append(load(kafka={"bootstrap_servers": "flag:4"}).kafka.bootstrap_servers)
    assert seen == [None, "file:1", "well-known:2", "variable:3", "flag:4"]


def test_a_top_level_setting_has_the_same_precedence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_file("home = 'file'\n")
    assert load().home == Path("file")
    monkeypatch.setenv("HEADWATER_HOME", "variable")
    assert load().home == Path("variable")
    assert load(home="flag").home == Path("flag")


def test_sources_are_merged_by_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_file("[kafka]\nport = 1001\nheap_mb = 1001\ncontroller_port = 1001\n")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "own:9092")
    monkeypatch.setenv("HEADWATER_KAFKA__HEAP_MB", "1002")
    kafka = load(kafka={"controller_port": "1003"}).kafka
    assert (kafka.port, kafka.heap_mb, kafka.controller_port) == (1001, 1002, 1003)
    assert kafka.bootstrap_servers == "own:9092"
    assert kafka.timeout_seconds == 30.0


@pytest.mark.parametrize(("name", "target"), WELL_KNOWN.items())
def test_a_well_known_name_sets_its_setting(
    name: str, target: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/some/value")
    section, key = target
    found = getattr(getattr(load(), section), key)
    text = found.get_secret_value() if isinstance(found, SecretStr) else str(found)
    assert text == "/some/value"


@pytest.mark.parametrize(("name", "target"), WELL_KNOWN.items())
def test_a_well_known_name_that_is_empty_counts_as_not_set(
    name: str, target: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    section, key = target
    default = getattr(getattr(load(), section), key)
    monkeypatch.setenv(name, "")
    assert getattr(getattr(load(), section), key) == default


def test_the_local_broker_is_used_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "")
    monkeypatch.setenv("HEADWATER_KAFKA__PORT", "19092")
    assert load().bootstrap_servers == "localhost:19092"


def test_configured_brokers_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "a:1,b:2")
    assert load().bootstrap_servers == "a:1,b:2"


@pytest.mark.parametrize(
    "name",
    [
        "HEADWATER_KAFAK__PORT",
        "HEADWATER_KAFKA__PROT",
        "HEADWATER_KAFKA_PORT",
        "HEADWATER_HOME__X",
        "HEADWATER_",
        "headwater_kafak__port",
    ],
)
def test_an_unknown_variable_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    error = rejection()
    assert name in error.message
    assert "headwater settings" in (error.hint or "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[kafak]\nport = 1", "kafak"),
        ("[kafka]\nprot = 1", "kafka.prot"),
        ("port = 1", "port"),
    ],
)
def test_an_unknown_name_in_the_file_is_rejected(text: str, name: str) -> None:
    write_file(text)
    message = rejection().message
    assert f"`{name}` in headwater.toml" in message


def test_an_unknown_option_is_rejected() -> None:
    assert "kafka.prot" in rejection(kafka={"prot": "1"}).message
    assert "kafak" in rejection(kafak={"port": "1"}).message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADWATER_KAFKA__PORT", "many"),
        ("HEADWATER_KAFKA__PORT", "0"),
        ("HEADWATER_KAFKA__PORT", "65536"),
        ("HEADWATER_KAFKA__PORT", ""),
        ("HEADWATER_KAFKA__BOOTSTRAP_SERVERS", ""),
        ("HEADWATER_KAFKA__TIMEOUT_SECONDS", "0"),
        ("HEADWATER_SERVICES__MIN_FREE_MB", "-1"),
        ("HEADWATER_SPARK__LOG_LEVEL", "LOUD"),
        ("HEADWATER_JOBS__CREATE_TOPICS", "perhaps"),
        ("HEADWATER_KAFKA__CLIENT", "not json"),
        ("HEADWATER_KAFKA", "{"),
    ],
)
def test_an_error_names_the_variable_to_change(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert f"setting {name}" in rejection().message


def test_an_error_in_the_file_names_the_key() -> None:
    write_file("[kafka]\nport = 'many'\n")
    error = rejection()
    assert "`kafka.port` in headwater.toml" in error.message
    assert error.attributes == {"setting": "HEADWATER_KAFKA__PORT"}


@pytest.mark.parametrize("text", ["[kafka", "kafka = ", b"home = '\xff'", "kafka = 3"])
def test_the_error_of_an_invalid_file_names_the_file(text: str | bytes) -> None:
    write_file(text)
    assert "headwater.toml" in rejection().message


@pytest.mark.parametrize("home", ["", "."])
def test_home_must_not_be_the_working_directory_which_a_wipe_would_delete(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_HOME", home)
    assert "HEADWATER_HOME" in rejection().message


def test_client_properties_are_json_or_a_table_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file('[kafka.client]\n"security.protocol" = "SSL"\n')
    assert load().kafka.client == {"security.protocol": "SSL"}
    monkeypatch.setenv("HEADWATER_KAFKA__CLIENT", '{"sasl.username": "me"}')
    assert load().kafka.client == {"security.protocol": "SSL", "sasl.username": "me"}


def test_secrets_are_not_in_the_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_CATALOG__DATABASE_URL", DATABASE)
    secret = f'{{"sasl.password": "{SECRET}"}}'
    monkeypatch.setenv("HEADWATER_KAFKA__CLIENT", secret)
    monkeypatch.setenv("HEADWATER_SPARK__KAFKA_OPTIONS", secret)
    settings = load()
    assert SECRET not in f"{settings!r} {settings} {settings.kafka!r} {settings.catalog!r}"
    assert settings.catalog.database_url is not None
    assert settings.catalog.database_url.get_secret_value() == DATABASE
    assert settings.kafka.client == {"sasl.password": SECRET}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADWATER_CATALOG", f'{{"database_url": "{DATABASE}"'),
        ("HEADWATER_CATALOG", f'{{"database_url": ["{DATABASE}"]}}'),
        ("HEADWATER_KAFKA__CLIENT", SECRET),
        ("HEADWATER_KAFKA__CLIENT", f'{{"sasl.password": ["{SECRET}"]}}'),
    ],
)
def test_an_invalid_value_is_not_shown_because_it_may_be_secret(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    error = rejection()
    assert SECRET not in f"{error.message} {error.hint} {error.attributes}"
    # Neither is it in the traceback of `--debug`.
    assert error.__suppress_context__
    assert error.__cause__ is None


def test_settings_are_immutable() -> None:
    settings = load()
    with pytest.raises(ValidationError, match="frozen"):
        settings.home = Path("elsewhere")  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        settings.kafka.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(("name", "description"), leaves(Settings).items())
def test_every_setting_has_a_description(name: str, description: str | None) -> None:
    assert (description or "").endswith("."), name


def test_the_state_directory_is_absolute(tmp_path: Path) -> None:
    assert load().home_dir == tmp_path / ".headwater"


def test_jars_are_in_the_users_cache_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert load().jars_dir == tmp_path / "me" / ".cache" / "headwater" / "jars"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert load().jars_dir == tmp_path / "cache" / "headwater" / "jars"
    monkeypatch.setenv("HEADWATER_JVM__JARS_DIR", "jars")
    assert load().jars_dir == tmp_path / "jars"


def test_exported_variables_are_restored_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_KEPT", "before")
    monkeypatch.delenv("TEST_NEW", raising=False)

    def fail() -> None:
        with exported(TEST_KEPT="during", TEST_NEW="during"):
            assert (os.environ["TEST_KEPT"], os.environ["TEST_NEW"]) == ("during", "during")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert os.environ["TEST_KEPT"] == "before"
    assert "TEST_NEW" not in os.environ


def test_the_environment_of_a_child_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEPT", "before")
    child = child_environment(TEST_KEPT="for the child", TEST_NEW="for the child")
    assert (child["TEST_KEPT"], child["TEST_NEW"]) == ("for the child", "for the child")
    assert os.environ["TEST_KEPT"] == "before"
    assert "TEST_NEW" not in os.environ


def test_spark_submit_is_detected_by_its_gateway_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert not running_under_spark_submit()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    assert running_under_spark_submit()


def test_an_empty_certificate_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "")
    assert default_ca_file() is None
    monkeypatch.setenv("SSL_CERT_FILE", "/some/bundle.pem")
    assert default_ca_file() == "/some/bundle.pem"


def test_a_former_name_in_a_variable_sets_the_current_key_and_logs_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADWATER_LINEAGE__MOST_TRIES", "3")
    assert load().lineage.max_attempts == 3
    assert caplog.messages == [
        "setting `lineage.most_tries` is deprecated: use `lineage.max_attempts`"
    ]


def test_a_former_name_of_a_list_is_read_as_json_from_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADWATER_LINEAGE__OFF_FOR", '["a", "b*"]')
    assert list(load().lineage.disabled_jobs) == ["a", "b*"]


def test_a_former_name_has_the_precedence_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file("[lineage]\nmost_tries = 4\n")
    assert load().lineage.max_attempts == 4
    monkeypatch.setenv("HEADWATER_LINEAGE__MAX_ATTEMPTS", "5")
    assert load().lineage.max_attempts == 5
    assert load(lineage={"most_tries": 6}).lineage.max_attempts == 6


def test_the_current_name_wins_over_a_former_one_of_the_same_source() -> None:
    write_file("[lineage]\nmost_tries = 4\nmax_attempts = 5\n")
    assert load().lineage.max_attempts == 5


@pytest.mark.parametrize(
    ("section", "former", "name"),
    [
        (section, former, name)
        for section, field in Settings.model_fields.items()
        if isinstance(field.default, Section)
        for former, name in field.default.renamed.items()
    ],
)
def test_every_former_name_has_a_current_key(section: str, former: str, name: str) -> None:
    keys = type(Settings.model_fields[section].default).model_fields
    assert name in keys
    assert former not in keys


def test_invalid_json_under_a_former_name_is_refused_with_the_settings_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADWATER_LINEAGE__OFF_FOR", '["a')
    with pytest.raises(SettingError, match="HEADWATER_LINEAGE__DISABLED_JOBS"):
        load()
