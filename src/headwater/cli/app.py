"""The root command. A command's module is imported only when the command is used: `headwater
--help` must not wait for libraries that it does not need."""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

import click

from headwater import __version__, process
from headwater.errors import HeadwaterError, InputError
from headwater.process import LOG_FORMATS, LOG_LEVELS, LogFormat, configure_logging

if TYPE_CHECKING:
    from headwater.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger(__name__)

# Name -> (module and attribute, help line), in the order in which a new user needs them.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("services:up", "Start local services and wait until they are ready."),
    "status": ("services:status", "Show the state of the services."),
    "down": ("services:down", "Stop the services that were started from this home."),
    "doctor": (
        "doctor:doctor",
        "Check Java, jars, broker, database and lineage service, with hints.",
    ),
    "demo": ("demo:demo", "Run a demo on the real stack, step by step, and check it."),
    "generate": ("generate:generate_command", "Write visits, ads, clicks or articles to a topic."),
    "topics": ("topics:topics", "List, create and describe topics."),
    "produce": ("records:produce", "Send lines of standard input to a topic."),
    "consume": ("records:consume", "Print the records of a topic."),
    "trace": ("trace:trace", "Show what a record was made from."),
    "impact": ("impact:impact", "Show what was made from a record, or from a job's output."),
    "verify": ("verify:verify", "Compare a topic with the source it was made from."),
    "why-missing": ("why_missing:why_missing", "Show what happened to a record."),
    "dead-letter": ("dead_letter:dead_letter", "List dead-lettered records, and redrive them."),
    "archive": ("archive:archive", "Show, read and compact archived topics."),
    "replay": ("replay:replay", "Run archived records through a job's transform again."),
    "kafka": ("kafka_tools:kafka", "Run one of Apache Kafka's own tools."),
    "serve": ("serve:serve", "Run the lineage service in the foreground."),
    "probe": ("serve:probe", "Check the lineage service, such as for a container."),
    "spool": ("lineage:spool", "Show and send lineage events that are not delivered yet."),
    "keys": ("keys:keys", "Create, list and revoke API keys of the lineage service."),
    "metrics": ("metrics:metrics", "Show metrics of the lineage service."),
    "alerts": ("alerts:alerts", "Check, list, test and watch alerts."),
    "run": ("run:run", "Run a shipped job, or your own."),
    "bench": ("bench:bench", "Measure, and print ratios."),
    "jars": ("jars:jars", "Fetch, list and check the pinned jars."),
    "settings": ("settings:settings", "List all settings with their values."),
    "completion": ("completion:completion", "Print a shell completion script."),
}
# Former name -> (module and attribute, current name). They work, with a warning.
FORMER_COMMANDS: Mapping[str, tuple[str, str]] = {
    "lineage": ("lineage:lineage", "spool"),
    "read-table": ("show:read_table", "archive read --format table"),
    "read-topic": ("show:read_topic", "consume --format table"),
}


class LazyGroup(click.Group):
    """A group that knows names and help lines without importing the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        location, _ = COMMANDS.get(cmd_name) or FORMER_COMMANDS.get(cmd_name) or (None, None)
        if location is None:
            return None
        module, _, attribute = location.partition(":")
        command = getattr(importlib.import_module(f"headwater.cli.{module}"), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - COMMANDS is ours
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # not left to click, which would exit with 1
            _exit_on_closed_pipe()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 a check found something wrong, 2 bad input or usage, "
    "3 a service can't be reached, 4 Kafka refuses the request.",
)
@click.version_option(__version__, prog_name="headwater")
@click.option("--debug", is_flag=True, help="Show stack traces, and log at level debug.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    help="Lowest level that is logged to standard error.  [default: info]",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="Plain lines, or one JSON object per line.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Override a setting, such as `kafka.port=19092`. May be repeated.",
)
@click.pass_context
def headwater(
    ctx: click.Context,
    debug: bool,
    log_level: str | None,
    log_format: LogFormat,
    overrides: Sequence[str],
) -> None:
    """Streaming pipelines on Kafka and Spark: traceable, ordered, replayable."""
    ctx.ensure_object(dict)
    level = log_level or ("debug" if debug else "info")
    ctx.obj |= {"overrides": overrides, "log_level": level, "log_format": log_format}
    configure_logging(level, log_format)
    command = ctx.invoked_subcommand or ""
    if command in FORMER_COMMANDS:
        _, current = FORMER_COMMANDS[command]
        _LOG.warning("`headwater %s` is deprecated: use `headwater %s`", command, current)


def with_settings(function: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """Pass the settings to a command as its first argument; `--set` takes precedence."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        from headwater.settings import load

        root = click.get_current_context().find_root()
        overrides = (root.obj or {}).get("overrides", ())
        return function(load(**parse_overrides(overrides)), *args, **kwargs)

    return wrapper


def parse_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """`kafka.port=19092` becomes `{"kafka": {"port": "19092"}}`."""
    result: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        section, dot, key = name.partition(".")
        if not equals or not section or (dot and not key):
            raise InputError(f"--set expects SECTION.KEY=VALUE, got {pair!r}")
        if section in result and isinstance(result[section], dict) != bool(dot):
            raise InputError(f"--set sets both a value and keys of {section!r}: {pair!r}")
        if dot:
            result.setdefault(section, {})[key] = value
        else:
            result[section] = value
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `headwater` script."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        with process.owned_process():
            code = headwater.main(arguments, prog_name="headwater", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _exit_on_closed_pipe()
    except HeadwaterError as error:
        if debug:
            import traceback

            traceback.print_exc()
        _print_error(error.message, error.hint)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        hint = "this is a bug; `headwater --debug …` shows where"
        _print_error(f"{type(error).__name__}: {error}", hint)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(message: str, hint: str | None) -> None:
    from headwater.cli.text import one_line_each

    click.echo(one_line_each(f"error: {message}"), err=True)
    if hint:
        click.echo(one_line_each(f"hint: {hint}"), err=True)


def _exit_on_closed_pipe() -> NoReturn:
    # `headwater consume … | head` is not an error; Python would complain when it closes stdout.
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
