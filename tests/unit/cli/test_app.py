"""The root command: starts fast, and has an exit code and a message for every error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click
import pytest

from headwater.cli.app import COMMANDS, FORMER_COMMANDS, headwater, main
from headwater.errors import CheckFailedError, HeadwaterError, InputError, UnavailableError
from headwater.settings import child_environment
from headwater.testing import free_port

HEAVY = {"pyspark", "pydantic", "pydantic_settings", "rich", "confluent_kafka", "psutil"}
Ending = Callable[[BaseException], None]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


@pytest.fixture
def command_ends_with(monkeypatch: pytest.MonkeyPatch) -> Ending:
    """Makes `headwater boom` a command that raises an error."""

    def end_with(error: BaseException) -> None:
        @click.command()
        def boom() -> NoReturn:
            raise error

        module = ModuleType("headwater.cli.boom")
        module.boom = boom  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(COMMANDS, "boom", ("boom:boom", "Fails."))

    return end_with


def exit_code(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=child_environment(**variables),
    )


def leaf_commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    commands = [(path, command)]
    for name, child in getattr(command, "commands", {}).items():
        commands += leaf_commands(child, f"{path} {name}")
    return commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_has_a_help_text(name: str) -> None:
    command = headwater.get_command(click.Context(headwater), name)
    assert command is not None
    for path, each in leaf_commands(command, name):
        assert (each.help or "").strip(), path
    assert COMMANDS[name][1].endswith(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_name_in_the_list(name: str) -> None:
    command = headwater.get_command(click.Context(headwater), name)
    assert command is not None
    assert command.name == name


def test_help_lists_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, (_, line) in COMMANDS.items():
        assert f" {name} {line}" in shown
    assert "Exit codes: 0 done" in shown


@pytest.mark.parametrize("name", FORMER_COMMANDS)
def test_a_former_command_works_and_logs_the_current_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(name, "--no-such-option") == 2
    current = FORMER_COMMANDS[name][1]
    shown = capsys.readouterr().err
    assert f"warning: `headwater {name}` is deprecated: use `headwater {current}`" in shown
    assert "No such option" in shown
    assert current.split()[0] in COMMANDS


def test_help_does_not_list_former_commands(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code("--help")
    shown = capsys.readouterr().out
    assert [name for name in FORMER_COMMANDS if f"\n  {name} " in shown] == []


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("no-such-command",)])
def test_help_imports_no_heavy_libraries(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        "from headwater.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "print('modules:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    modules = done.stdout.rpartition("modules:")[2].split()
    assert "headwater.cli.app" in modules
    assert HEAVY.isdisjoint(modules)


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("no-such-command") == 2
    shown = capsys.readouterr().err
    assert "no-such-command" in shown
    assert "Traceback" not in shown


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("settings", "--no-such-option") == 2
    assert "--no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "code"),
    [(HeadwaterError, 1), (CheckFailedError, 1), (InputError, 2), (UnavailableError, 3)],
)
def test_an_error_is_printed_with_its_hint_and_sets_the_exit_code(
    kind: type[HeadwaterError],
    code: int,
    command_ends_with: Ending,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command_ends_with(kind("what happened: 7", hint="change `x`"))
    assert exit_code("boom") == code
    shown = capsys.readouterr()
    assert shown.err == "error: what happened: 7\nhint: change `x`\n"
    assert shown.out == ""


def test_an_error_without_a_hint_is_one_line(
    command_ends_with: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    command_ends_with(InputError("what happened"))
    assert exit_code("boom") == 2
    assert capsys.readouterr().err == "error: what happened\n"


def test_an_unexpected_error_is_reported_as_a_bug_without_a_stack_trace(
    command_ends_with: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    command_ends_with(ZeroDivisionError("by zero"))
    assert exit_code("boom") == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: ZeroDivisionError: by zero\nhint: this is a bug")
    assert "Traceback" not in shown


def test_ctrl_c_exits_with_130_without_a_stack_trace(
    command_ends_with: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    command_ends_with(KeyboardInterrupt())
    assert exit_code("boom") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_control_characters_in_an_error_are_escaped(
    command_ends_with: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    command_ends_with(InputError("bad topic: \x1b[2J\r\x9b1A", hint="\x1b]0;x\x07"))
    exit_code("boom")
    shown = capsys.readouterr().err
    assert shown == "error: bad topic: \\x1b[2J\\x0d\\x9b1A\nhint: \\x1b]0;x\\x07\n"


def test_an_invalid_setting_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--set", "kafka.port=many", "settings") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: setting HEADWATER_KAFKA__PORT")
    assert "\nhint: " in shown
    assert "Traceback" not in shown


def test_an_unreachable_broker_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = f"kafka.bootstrap_servers=127.0.0.1:{free_port()}"
    code = exit_code("--set", brokers, "--set", "kafka.timeout_seconds=0.5", "topics", "list")
    shown = capsys.readouterr().err
    assert code == 3
    assert shown.startswith("error: Kafka at 127.0.0.1:")
    assert "KAFKA_BOOTSTRAP_SERVERS" in shown


def test_a_flag_takes_precedence_over_a_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWATER_HOME", "/from/variable")
    assert exit_code("--set", "home=/from/flag", "settings") == 0
    shown = capsys.readouterr().out
    assert "/from/flag" in shown
    assert "/from/variable" not in shown


def test_debug_adds_a_stack_trace_and_keeps_the_exit_code() -> None:
    # In a separate process, because it configures logging.
    done = run("--debug", "--set", "kafka.port=many", "settings")
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert "SettingError" in done.stderr
    assert "\nerror: setting HEADWATER_KAFKA__PORT" in done.stderr


def test_without_debug_a_process_shows_no_stack_trace() -> None:
    done = run("settings", HEADWATER_KAFKA__PORT="many")
    assert done.returncode == 2
    assert done.stderr.startswith("error: setting HEADWATER_KAFKA__PORT")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("settings",),
        ("settings", "--json"),
        ("generate", "visits", "--rows", "1", "--stdout"),
        ("generate", "visits", "--rows", "5000", "--stdout"),
    ],
)
def test_a_closed_pipe_is_not_an_error(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Buffered output is written at exit, when Python itself would print an error.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "headwater", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
