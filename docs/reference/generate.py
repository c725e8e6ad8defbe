"""Writes settings.md, commands.md and openapi.json from the code: `make reference`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from headwater.cli.app import COMMANDS, headwater
from headwater.cli.settings import setting_rows
from headwater.jobs import JOBS
from headwater.service.app import create_api
from headwater.settings import Settings

_FOLDER = Path(__file__).parent
_NOTE = "<!-- Made from the code by `make reference`; changes here are lost. -->\n\n"


def settings_page() -> str:
    """Every setting with its variable, default and meaning."""
    lines = [
        "# Settings\n\n",
        _NOTE,
        "Later wins: default, `headwater.toml`, the environment, `--set SECTION.KEY=VALUE`.\n\n",
        "| setting | variable | default | what it is for |\n|---|---|---|---|\n",
    ]
    # Without validation: a page must not depend on the environment in which it is written.
    for row in setting_rows(Settings.model_construct()):
        variable = row.variable.replace(" or ", "` or `")
        lines.append(f"| `{row.name}` | `{variable}` | {row.default} | {row.description} |\n")
    return "".join(lines)


def commands_page() -> str:
    """Every command with its help text."""
    lines = ["# Commands\n\n", _NOTE, "```text\n", _help(headwater, "headwater"), "```\n"]
    for name in COMMANDS:
        command = headwater.get_command(click.Context(headwater), name)
        if command is not None:
            for path, each in _with_subcommands(command, f"headwater {name}"):
                lines.append(f"\n## {path}\n\n```text\n{_help(each, path)}```\n")
    lines.append(f"\n## Shipped jobs\n\n{', '.join(f'`{job}`' for job in JOBS)}\n")
    return "".join(lines)


def _with_subcommands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _with_subcommands(each, f"{path} {name}")


def _help(command: click.Command, path: str) -> str:
    # As they are when the command is used: below the root, with the root's names for help.
    inherited = headwater.context_settings | command.context_settings
    context = click.Context(
        command, info_name=path, **{"terminal_width": 100, "max_content_width": 100, **inherited}
    )
    return command.get_help(context) + "\n"


def openapi_page() -> str:
    """The routes of the lineage service; the page's types are made from it."""
    # Nothing is connected until the service is opened.
    api = create_api(Settings.model_construct(), "postgresql://nobody@localhost/nothing")
    return json.dumps(api.openapi(), indent=1, sort_keys=True) + "\n"


PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "openapi.json": openapi_page,
}

if __name__ == "__main__":
    for file_name, page in PAGES.items():
        (_FOLDER / file_name).write_text(page(), encoding="utf-8")
