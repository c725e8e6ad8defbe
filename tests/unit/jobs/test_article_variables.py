"""`KAFKA_TOPIC`, `ICEBERG_TABLE` and other common variables are read by the article jobs only."""

from __future__ import annotations

import importlib
import logging
import os
from pathlib import Path
from typing import Any

import click
import pytest
from tests.support import Headwater

import headwater
from headwater.jobs import JOBS, batch_write_raw_with_lineage, stream_write_raw_with_lineage
from headwater.jobs.articles import CHECKPOINT, FILES, TABLE, TOPIC, ArticleOption, article_settings
from headwater.kafka import Topic
from headwater.settings import PREFIX, WELL_KNOWN, load

VARIABLES = {
    "KAFKA_TOPIC": "own.topic",
    "ICEBERG_TABLE": "lake.own.table",
    "CHECKPOINT_LOCATION": "s3a://own/checkpoint",
    "SCRAPED_DATA_PATH": "/own/*.csv",
    "ENVIRONMENT": "staging",
}
OPTIONS = {"files": FILES, "topic": TOPIC, "table": TABLE, "checkpoint": CHECKPOINT}
ARTICLE_JOBS = ("batch_write_raw_with_lineage", "stream_write_raw_with_lineage")


class SessionStartedError(Exception):
    """Raised instead of starting a session."""


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.upper().startswith(PREFIX) or name in {*WELL_KNOWN, *VARIABLES}:
            monkeypatch.delenv(name)


def set_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def session_settings(monkeypatch: pytest.MonkeyPatch, job: str, *options: str) -> Any:
    """The settings of the session that an article job starts."""
    module = importlib.import_module(JOBS[job])
    started: list[Any] = []

    def start(name: str, *args: Any, **arguments: Any) -> None:
        started.append(arguments.get("settings") or args[0])
        raise SessionStartedError

    for name in ("create_session", "spark_session_with_lineage"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, start)
    if hasattr(module, "input_topic"):  # asks Kafka before the session starts
        monkeypatch.setattr(module, "input_topic", lambda name, kafka: Topic(name, 1))
    settings = load(jobs={"create_topics": "false"})
    with pytest.raises(SessionStartedError):
        module.main.main(list(options), standalone_mode=False, obj=settings)
    return started[0]


def test_the_settings_do_not_depend_on_these_variables(
    monkeypatch: pytest.MonkeyPatch, headwater: Headwater
) -> None:
    before = load()
    set_variables(monkeypatch)
    assert load() == before
    shown = headwater("settings", "--json", **VARIABLES)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == headwater("settings", "--json", **dict.fromkeys(VARIABLES, "")).stdout
    assert not [value for value in VARIABLES.values() if value in shown.stdout]
    assert "articles" not in shown.stdout


@pytest.mark.parametrize("job", [name for name in JOBS if name not in ARTICLE_JOBS])
def test_other_jobs_do_not_depend_on_these_variables(
    job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command: click.Command = importlib.import_module(JOBS[job]).main
    before = command.make_context(job, [], resilient_parsing=True).params
    set_variables(monkeypatch)
    assert command.make_context(job, [], resilient_parsing=True).params == before


def test_only_the_article_jobs_name_these_variables() -> None:
    source = Path(headwater.__file__).parent
    naming = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for name in VARIABLES
        if f'"{name}"' in path.read_text(encoding="utf-8")
    }
    assert naming == {"jobs/articles.py"}


@pytest.mark.parametrize(
    ("job", "source", "option"),
    [
        ("batch_write_raw_with_lineage", "/own/*.csv", "--files"),
        ("stream_write_raw_with_lineage", "own.topic", "--input-topic"),
    ],
)
def test_an_article_job_takes_its_variables_and_prefers_its_options(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    job: str,
    source: str,
    option: str,
) -> None:
    caplog.set_level(logging.INFO)
    set_variables(monkeypatch)
    lineage = session_settings(monkeypatch, job).lineage
    assert (lineage.namespace, lineage.environment) == ("neuronews", "staging")
    assert f"{source} -> lake.own.table, starting Spark" in caplog.messages
    session_settings(monkeypatch, job, option, "given", "--table", "given.table")
    assert "given -> given.table, starting Spark" in caplog.messages


def test_the_streaming_job_takes_the_checkpoint_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[Path | str] = []

    def prepare(options: Any, settings: Any) -> None:
        found.append(with_variables(options, settings).checkpoint)
        raise SessionStartedError

    with_variables = stream_write_raw_with_lineage._with_variables
    monkeypatch.setattr(stream_write_raw_with_lineage, "_with_variables", prepare)
    for variable, *options in (("",), ("own",), ("s3a://own",), ("own", "--checkpoint", "given")):
        monkeypatch.setenv("CHECKPOINT_LOCATION", variable)
        with pytest.raises(SessionStartedError):
            stream_write_raw_with_lineage.main.main(options, standalone_mode=False, obj=load())
    default = tmp_path / ".headwater" / "checkpoints" / stream_write_raw_with_lineage.NAME
    assert found == [default, tmp_path / "own", "s3a://own", tmp_path / "given"]


def test_the_batch_function_takes_the_variables_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_variables(monkeypatch)
    read: list[str] = []

    def open_files(spark: Any, files: str, **options: Any) -> None:
        read.append(files)
        raise SessionStartedError

    monkeypatch.setattr(batch_write_raw_with_lineage, "ArticleFiles", open_files)
    monkeypatch.setattr(batch_write_raw_with_lineage, "current_application", lambda spark: None)
    spark: Any = None
    for files in (None, "given.csv"):
        with pytest.raises(SessionStartedError):
            batch_write_raw_with_lineage.write_articles(spark, files=files)
    assert read == ["/own/*.csv", "given.csv"]


@pytest.mark.parametrize(("key", "option"), OPTIONS.items())
def test_the_precedence_is_option_then_variable_then_default(
    key: str, option: ArticleOption, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert option.value(None, load()) == option.default
    monkeypatch.setenv(option.variable, "")
    assert option.value(None, load()) == option.default
    assert option.value(None, load(articles={key: "former"})) == "former"
    monkeypatch.setenv(option.variable, "of the variable")
    assert option.value(None, load(articles={key: "former"})) == "of the variable"
    assert option.value("given", load(articles={key: "former"})) == "given"


@pytest.mark.parametrize(("key", "option"), OPTIONS.items())
def test_the_former_settings_keep_working_and_name_the_option_and_the_variable(
    key: str,
    option: ArticleOption,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("headwater.toml").write_text(f"[articles]\n{key} = 'file'\n", encoding="utf-8")
    assert option.value(None, load()) == "file"
    monkeypatch.setenv(f"HEADWATER_ARTICLES__{key.upper()}", "variable")
    assert option.value(None, load()) == "variable"
    assert option.value(None, load(articles={key: "set"})) == "set"
    name = {"topic": "--input-topic"}.get(key, f"--{key}")
    warning = f"setting `articles.{key}` is deprecated: use {name} or {option.variable}"
    assert caplog.messages == [warning] * 3


def test_the_namespace_is_the_users_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().lineage.namespace == "default"
    assert article_settings(load()).lineage.namespace == "neuronews"
    Path("headwater.toml").write_text("[lineage]\nnamespace = 'default'\n", encoding="utf-8")
    assert article_settings(load()).lineage.namespace == "default"
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "mine")
    assert article_settings(load()).lineage.namespace == "mine"
    assert article_settings(load(lineage={"namespace": "set"})).lineage.namespace == "set"


def test_the_general_setting_of_the_environment_wins_over_the_common_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert article_settings(load()).lineage.environment == "development"
    monkeypatch.setenv("ENVIRONMENT", "staging")
    assert load().lineage.environment == "development"
    assert article_settings(load()).lineage.environment == "staging"
    monkeypatch.setenv("HEADWATER_LINEAGE__ENVIRONMENT", "production")
    assert article_settings(load()).lineage.environment == "production"
