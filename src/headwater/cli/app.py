"""The root command. Every command's module is imported when that command is used, not before:
`headwater --help` must not wait for libraries that it does not need."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from headwater import __version__
from headwater.errors import HeadwaterError
from headwater.logs import LOG_FORMATS, LOG_LEVELS, LogFormat, configure_logging

# Name -> (where it lives, what `--help` says of it), in the order of a first day's work.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("services:up", "Start local services and return when they answer."),
    "status": ("services:status", "Show how the services stand."),
    "down": ("services:down", "Stop what was started from this home."),
    "doctor": (
        "doctor:doctor",
        "Check Java, jars, broker, database and lineage service, with hints.",
    ),
    "demo": ("demo:demo", "Run a story on the real stack, step by step, and check it."),
    "generate": ("generate:generate_command", "Write visits, ads, clicks or articles to a topic."),
    "topics": ("topics:topics", "List, create and describe topics."),
    "produce": ("records:produce", "Send lines of standard input to a topic."),
    "consume": ("records:consume", "Print the records of a topic."),
    "trace": ("trace:trace", "Show what a record was made from."),
    "impact": ("impact:impact", "Show what was made from a record, or from a job's output."),
    "verify": ("verify:verify", "Hold a topic against the source it was made from."),
    "why-missing": ("why_missing:why_missing", "Tell what became of a record."),
    "dead-letter": ("dead_letter:dead_letter", "List records set aside, and send them back."),
    "archive": ("archive:archive", "Look at archived topics, read from them, join their files."),
    "read-table": ("show:read_table", "Show the rows of a topic's archive."),
    "read-topic": ("show:read_topic", "Show the records of a topic in the same frame."),
    "replay": ("replay:replay", "Run archived records through a job's logic again."),
    "kafka": ("kafka_tools:kafka", "Run one of Apache Kafka's own tools."),
    "serve": ("serve:serve", "Run the lineage service in the foreground."),
    "lineage": ("lineage:lineage", "Look at events that wait for the catalog, and send them."),
    "keys": ("keys:keys", "Create, list and revoke API keys of the lineage service."),
    "metrics": ("metrics:metrics", "Show the lineage service in figures."),
    "alerts": ("alerts:alerts", "Check, list, test and watch alerts."),
    "run": ("run:run", "Run a shipped job, or one of your own."),
    "bench": ("bench:bench", "Measure, and print ratios."),
    "jars": ("jars:jars", "Fetch, list and check the pinned jars."),
    "settings": ("settings:settings", "List all settings with their values."),
    "completion": ("completion:completion", "Print a shell completion script."),
}


class LazyGroup(click.Group):
    """A group that knows names and help lines without importing the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(f"headwater.cli.{module}"), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - COMMANDS is ours
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # not left to click, which would exit with 1
            _leave_closed_pipe()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 a check found something wrong, 2 bad input or usage, "
    "3 a service can't be reached.",
)
@click.version_option(__version__, prog_name="headwater")
@click.option(
    "--debug", is_flag=True, help="Show stack traces; the same as --log-level debug otherwise."
)
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    help="What is logged to standard error.  [default: info]",
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
    ctx.obj["overrides"] = overrides
    configure_logging(log_level or ("debug" if debug else "info"), log_format)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `headwater` script."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        code = headwater.main(arguments, prog_name="headwater", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _leave_closed_pipe()
    except HeadwaterError as error:
        if debug:
            import traceback

            traceback.print_exc()
        sys.exit(_tell(error))
    except Exception as error:
        if debug:
            raise
        _say(f"error: {type(error).__name__}: {error}")
        _say("hint: this is a bug; `headwater --debug …` shows where")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _tell(error: HeadwaterError) -> int:
    _say(f"error: {error.message}")
    if error.hint:
        _say(f"hint: {error.hint}")
    return error.exit_code


def _say(line: str) -> None:
    from headwater.cli.text import one_line_each

    click.echo(one_line_each(line), err=True)


def _leave_closed_pipe() -> NoReturn:
    # `headwater consume … | head` is no error; Python would complain when it closes stdout.
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
