"""`run JOB`: runs a shipped job by name, or a user's own by path."""

from __future__ import annotations

import difflib
import importlib
import runpy
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Event

import click

from headwater.cli.app import parse_overrides, with_settings
from headwater.errors import InputError, KafkaRefusedError, UnknownJobError
from headwater.jobs import JOBS
from headwater.settings import Settings, command_line


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": [],
        # All words after the job are its own, also `--`.
        "allow_interspersed_args": False,
    },
    add_help_option=False,
)
@click.argument("job", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
@with_settings
def run(
    settings: Settings, ctx: click.Context, job: str | None, arguments: tuple[str, ...]
) -> None:
    """Run a shipped job, or a Python file; `--restarts N` restarts it after a failure.

    With --available-now it stops when all available data is processed; otherwise SIGTERM or Ctrl-C
    stops it after the current micro-batch. --set, --delivery, --checkpoint and --accept also apply
    to the `LineageJob` of a Python file, which gets all other arguments, and all after `--`.
    """
    if job in (None, "--help", "-h"):
        click.echo(_HELP)
        return
    name = job.replace("-", "_")
    restarts, rest = take_restarts(arguments)
    if restarts:
        ctx.exit(run_with_restarts([*_root_options(ctx), "run", job, *rest], restarts))
    if name in JOBS:
        _run_shipped(name, arguments, settings)
    elif Path(job).is_file():
        options, rest = take_file_options(rest)
        pairs = [*ctx.find_root().obj["overrides"], *options.get("--set", ())]
        chosen = command_line.CommandLine(
            parse_overrides(pairs),
            options.get("--delivery", [None])[-1],
            options.get("--checkpoint", [None])[-1],
            options.get("--accept", ()),
        )
        with command_line.use(chosen):
            _run_file(Path(job), rest)
    else:
        close = difflib.get_close_matches(name, JOBS, n=1)
        raise UnknownJobError(
            f"there is no shipped job and no file {job!r}",
            hint=f"did you mean {close[0]}?" if close else f"shipped: {', '.join(JOBS)}",
        )


def _root_options(ctx: click.Context) -> list[str]:
    root = ctx.find_root().obj
    overrides = [word for pair in root["overrides"] for word in ("--set", pair)]
    return ["--log-level", root["log_level"], "--log-format", root["log_format"], *overrides]


def _run_shipped(name: str, arguments: tuple[str, ...], settings: Settings) -> None:
    command = importlib.import_module(JOBS[name]).main
    command.main(
        list(arguments), prog_name=f"headwater run {name}", standalone_mode=False, obj=settings
    )


def _run_file(path: Path, arguments: Sequence[str]) -> None:
    previous = sys.argv, sys.path
    sys.argv, sys.path = [str(path), *arguments], [str(path.parent.absolute()), *sys.path]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except BaseException as error:
        # The command line handles it, so Python does not print it as the error of the program.
        lineage = sys.modules.get("headwater.collector.session")
        if lineage is not None:
            lineage.report_program_error(error)
        raise
    finally:
        sys.argv, sys.path = previous


# Options of Headwater that a user's own file need not know.
_FILE_OPTIONS = ("--set", "--delivery", "--checkpoint", "--accept")
_HELP = f"""\
headwater run JOB [OPTIONS]

shipped jobs: {", ".join(JOBS)}

JOB may also be the path of a Python file, whose LineageJob takes --set, --delivery, --checkpoint
and --accept.
Options: run JOB --help
--restarts N starts a new process after a failure, at most N times."""

_MAX_PAUSE_SECONDS = 30.0
# The next start would end in the same way, or the job has done its work.
_NOT_RETRIED = (0, InputError.exit_code, KafkaRefusedError.exit_code)


def run_with_restarts(arguments: Sequence[str], restarts: int) -> int:
    """Run `headwater ARGUMENTS` in a child process, and again after a failure.

    Bad input and what Kafka refuses are not retried, and a stop request ends it. Signals are
    forwarded.

    Returns:
        The exit code of the last process.
    """
    stopped = Event()
    for failures in range(restarts + 1):
        code = _run_child(arguments, stopped)
        if code in _NOT_RETRIED or stopped.is_set():
            return code
        if failures < restarts:
            pause = min(2.0**failures, _MAX_PAUSE_SECONDS)
            left = restarts - failures
            click.echo(
                f"the job exited with {code}; {left} restarts left, next in {pause:g} s", err=True
            )
            if stopped.wait(pause):
                return code
    click.echo(f"the job failed {restarts + 1} times; --restarts allows more", err=True)
    return code


def _run_child(arguments: Sequence[str], stopped: Event) -> int:
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: object) -> None:
        stopped.set()
        for child in children:
            child.send_signal(number)

    # Before the child starts: a signal in between would not reach it.
    previous = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        with subprocess.Popen([sys.executable, "-m", "headwater", *arguments]) as child:
            children.append(child)
            if stopped.is_set():
                child.terminate()
            return child.wait()
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)


def take_restarts(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Take `--restarts N` out of a job's arguments; returns N and the rest.

    Raises:
        InputError: N is not a number.
    """
    options, rest = _take(arguments, ("--restarts",))
    number = options.get("--restarts", ["0"])[-1]
    if not number.isascii() or not number.isdigit():
        raise InputError(f"--restarts expects a number, got {number!r}")
    return int(number), rest


def take_file_options(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Take Headwater's options out of the arguments of a user's file; returns them and the rest,
    without the `--` that ends them.

    Raises:
        InputError: an option has no value.
    """
    options, rest = _take(arguments, _FILE_OPTIONS)
    for name, values in options.items():
        if not values[-1]:
            raise InputError(f"{name} expects a value")
    if "--" in rest:
        rest.remove("--")
    return options, rest


def _take(
    arguments: Sequence[str], names: Collection[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Take options with a value out of arguments, up to a `--`."""
    options: dict[str, list[str]] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            return options, [*rest, word, *words]
        if name not in names:
            rest.append(word)
            continue
        options.setdefault(name, []).append(value if equals else "".join(words[:1]))
        del words[: 0 if equals else 1]
    return options, rest
