"""`settings`: all settings with their values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json, print_table
from headwater.settings import PREFIX, WELL_KNOWN, Settings
from headwater.settings.openlineage import VARIABLES


@dataclass(frozen=True)
class SettingRow:
    """A setting in the list."""

    name: str
    variable: str
    default: str
    value: str
    description: str


def setting_rows(settings: BaseModel, path: tuple[str, ...] = ()) -> Iterator[SettingRow]:
    """All settings, depth first, in the order of their declaration."""
    for key, field in type(settings).model_fields.items():
        value = getattr(settings, key)
        if field.exclude:
            continue
        if isinstance(value, BaseModel):
            yield from setting_rows(value, (*path, key))
        else:
            yield _row((*path, key), field, value)


@click.command()
@json_option
@with_settings
def settings(settings: Settings, as_json: bool) -> None:
    """List all settings with their values; secrets are not shown."""
    rows = list(setting_rows(settings))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        print_table(("setting", "value", "variable"), [(r.name, r.value, r.variable) for r in rows])


def _row(path: tuple[str, ...], field: FieldInfo, value: object) -> SettingRow:
    known = [name for name, target in {**VARIABLES, **WELL_KNOWN}.items() if target == path]
    variable = " or ".join([*known, PREFIX + "__".join(path).upper()])
    default = field.get_default(call_default_factory=True)
    shown = _without_secrets(value)
    return SettingRow(".".join(path), variable, _text(default), shown, field.description or "")


def _without_secrets(value: object) -> str:
    if isinstance(value, SecretStr):
        return "(set)"
    if isinstance(value, dict):  # properties of clients, passwords among them
        return ", ".join(f"{name}=(set)" for name in value)
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, tuple):  # as in an environment variable
        return json.dumps(list(value))
    return "" if value is None else str(value)
