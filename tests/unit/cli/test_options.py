"""Former names of options: accepted, hidden from the help, and reported."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result

from headwater.cli.app import COMMANDS, headwater
from headwater.cli.options import RenamedOption


@click.command()
@click.option(
    "--limit",
    cls=RenamedOption,
    former=["--max", "--sample"],
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Maximum number.",
)
@click.option("--show-address", cls=RenamedOption, former=["--partitions"], is_flag=True)
@click.option("--as-version", "version", cls=RenamedOption, former=["--job-version"])
def command(limit: int, show_address: bool, version: str | None) -> None:
    click.echo(f"{limit} {show_address} {version}")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize("name", ["--limit", "--max", "--sample"])
@pytest.mark.parametrize("style", ["{} 3", "{}=3"])
def test_current_and_former_names_set_the_same_value(name: str, style: str) -> None:
    assert run(*style.format(name).split()).stdout == "3 False None\n"


def test_without_the_option_the_default_is_used() -> None:
    assert run().stdout == "10 False None\n"


def test_flags_and_options_with_another_parameter_name_can_be_renamed() -> None:
    assert run("--partitions", "--job-version", "v2").stdout == "10 True v2\n"
    assert run("--show-address", "--as-version", "v2").stdout == "10 True v2\n"


def test_a_former_name_logs_a_warning_with_the_current_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run("--max", "3", "--partitions")
    assert caplog.messages == [
        "--max is deprecated: use --limit",
        "--partitions is deprecated: use --show-address",
    ]


def test_the_current_name_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    run("--limit", "3", "--show-address")
    assert caplog.messages == []


@pytest.mark.parametrize("arguments", [("--limit", "3", "--max", "5"), ("--max", "5", "--limit=3")])
def test_the_current_name_takes_precedence(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).stdout == "3 False None\n"


def test_a_former_name_is_validated_like_the_current_one() -> None:
    refused = run("--max", "0")
    assert refused.exit_code == 2
    assert "'--limit': 0 is not in the range" in refused.stderr


def test_help_shows_only_the_current_names() -> None:
    shown = run("--help").stdout
    assert "--limit INTEGER RANGE" in shown
    assert "default: 10" in shown
    for former in ("--max", "--sample", "--partitions", "--job-version"):
        assert former not in shown


@pytest.mark.parametrize(
    ("path", "current", "former"),
    [
        ("consume", "--limit", "--max"),
        ("consume", "--show-address", "--partitions"),
        ("archive read", "--limit", "--max"),
        ("archive read", "--show-address", "--partitions"),
        ("replay run", "--limit", "--sample"),
        ("replay run", "--as-version", "--job-version"),
        ("impact", "--depth", "--max-depth"),
        ("impact", "--limit", "--max-records"),
        ("verify", "--timeout", "--for"),
        ("verify", "--limit", "--max"),
        ("alerts watch", "--timeout", "--seconds"),
        ("dead-letter list", "--limit", "--max"),
        ("dead-letter list", "--redriven-to", "--to"),
        ("dead-letter redrive", "--limit", "--max"),
    ],
)
def test_a_renamed_option_of_a_command_accepts_its_former_name(
    path: str, current: str, former: str
) -> None:
    first, *rest = path.split()
    assert first in COMMANDS
    found = headwater.get_command(click.Context(headwater), first)
    for name in rest:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    assert found is not None
    (option,) = (each for each in found.params if current in each.opts)
    assert isinstance(option, RenamedOption)
    assert former in option.former
