"""A location that is not a local path is refused everywhere, and never becomes a folder."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

import headwater.jobs
from headwater.cli.app import headwater as main
from headwater.errors import InputError, SettingError
from headwater.model.local_files import local_folder, local_path
from headwater.settings import Settings, load
from headwater.settings.path_option import PathOption
from headwater.settings.sections import Section
from headwater.spark.configuration import session_configuration
from headwater.spark.writers.table import table_of
from headwater.storage.checkpoint import checkpoint_location

URIS = ("s3a://bucket/x", "s3a:/bucket/x", "s3://b/x", "hdfs:/x", "abfss://c@a/x", "gs://b/x")
NAMES = ("main.sales.orders", "sales.orders")
TABLE_SETTINGS = ("archive.folder", "index.table", "index.tables")


def mentions_path(annotation: Any) -> bool:
    return annotation is Path or any(map(mentions_path, get_args(annotation)))


def path_settings() -> list[str]:
    """All settings that are paths, or lists of paths."""
    found = []
    for name, field in Settings.model_fields.items():
        keys = type(field.default).model_fields if isinstance(field.default, Section) else {}
        found += [f"{name}.{key}" for key, each in keys.items() if mentions_path(each.annotation)]
        found += [name] if mentions_path(field.annotation) else []
    return found


def set_variable(monkeypatch: pytest.MonkeyPatch, setting: str, value: str) -> str:
    name = "HEADWATER_" + setting.replace(".", "__").upper()
    monkeypatch.setenv(name, json.dumps([value]) if setting == "index.tables" else value)
    return name


def test_the_sweep_sees_the_settings_that_are_paths() -> None:
    assert {"home", "lineage.spool", "catalog.tls_key", *TABLE_SETTINGS} <= set(path_settings())


@pytest.mark.parametrize("setting", path_settings())
@pytest.mark.parametrize("uri", URIS)
def test_every_setting_that_is_a_path_refuses_a_uri(
    setting: str, uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    name = set_variable(monkeypatch, setting, uri)
    with pytest.raises(SettingError, match="only local paths are supported") as caught:
        load()
    assert name in caught.value.message
    assert uri in caught.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", TABLE_SETTINGS)
@pytest.mark.parametrize("table", NAMES)
def test_a_setting_for_a_table_refuses_the_name_of_a_table_in_a_catalog(
    setting: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = set_variable(monkeypatch, setting, table)
    with pytest.raises(SettingError, match=f"write './{table}'") as caught:
        load()
    assert name in caught.value.message


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, (*path, name))
    else:
        yield path


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def all_parameters() -> list[tuple[str, click.Parameter]]:
    """The parameters of every command, and of every job that has its own."""
    found = [
        (" ".join(path), parameter)
        for path in commands(main)
        for parameter in command_at(path).params
    ]
    for module in pkgutil.iter_modules(headwater.jobs.__path__, "headwater.jobs."):
        command = getattr(importlib.import_module(module.name), "main", None)
        if isinstance(command, click.Command):
            found += [(module.name, parameter) for parameter in command.params]
    return found


def test_every_option_that_is_a_path_refuses_a_uri() -> None:
    paths = [
        (name, parameter)
        for name, parameter in all_parameters()
        if isinstance(parameter.type, click.Path)
    ]
    assert len(paths) >= 8, paths
    for name, parameter in paths:
        assert isinstance(parameter.type, PathOption), f"{name} {parameter.name}"
        for uri in URIS:
            with pytest.raises(click.BadParameter, match="only local paths are supported"):
                parameter.type.convert(uri, parameter, None)


@pytest.mark.parametrize("table", [*URIS, *NAMES])
def test_the_error_of_an_option_names_the_option(table: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["replay", "dry-run", "x:y", "--to-table", table])
    assert done.exit_code == 2
    assert "--to-table" in done.output
    assert table in done.output


@pytest.mark.parametrize("table", [*URIS, *NAMES, Path("s3a://bucket/x")])
def test_a_delta_table_is_a_folder(
    table: str | Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="the Delta table"):
        table_of(None, table, "delta")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", URIS)
def test_a_checkpoint_or_warehouse_on_another_file_system_stays_a_uri(
    uri: str, tmp_path: Path
) -> None:
    settings = load(home=tmp_path, iceberg={"warehouse": uri})
    assert checkpoint_location("job", uri, settings) == uri
    configuration = session_configuration(("iceberg",), settings)
    assert configuration["spark.sql.catalog.demo.warehouse"] == uri


@pytest.mark.parametrize("path", ["x", "/data/x", "./a.b.c", "a.b/c", ".headwater", "file:/data/x"])
def test_local_paths_are_accepted(path: str) -> None:
    assert local_folder(path, table=True) == local_path(path)


def test_an_existing_folder_with_the_form_of_a_table_name_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sales.orders").mkdir()
    assert local_folder("sales.orders", table=True) == Path("sales.orders")
