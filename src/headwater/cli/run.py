"""`run JOB`: a shipped job by name, or a user's own by path."""

from __future__ import annotations

import difflib
import importlib
import runpy
import sys
from pathlib import Path

import click

from headwater.cli.output import with_settings
from headwater.cli.restarts import run_with_restarts, take_restarts
from headwater.errors import UnknownJobError
from headwater.jobs import JOBS
from headwater.settings import Settings


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("job", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
@with_settings
def run(
    settings: Settings, ctx: click.Context, job: str | None, arguments: tuple[str, ...]
) -> None:
    """Run a shipped job, or the Python file of one's own; `--restarts N` tries again.

    Ends by itself with --available-now; else SIGTERM or Ctrl-C ends it after the micro-batch
    that runs.
    """
    if job in (None, "--help", "-h"):
        click.echo("headwater run JOB [OPTIONS]\n\nshipped jobs: " + ", ".join(JOBS))
        click.echo("\nJOB may also be a path to a job of your own. Options: run JOB --help")
        click.echo("--restarts N starts a fresh process after a failed one, at most N times.")
        return
    name = job.replace("-", "_")
    restarts, rest = take_restarts(arguments)
    if restarts:
        given = [word for pair in ctx.find_root().obj["overrides"] for word in ("--set", pair)]
        ctx.exit(run_with_restarts([*given, "run", job, *rest], restarts))
    if name in JOBS:
        _run_shipped(name, arguments, settings)
    elif Path(job).is_file():
        _run_own(Path(job), arguments)
    else:
        close = difflib.get_close_matches(name, JOBS, n=1)
        raise UnknownJobError(
            f"no shipped job and no file has the name {job!r}",
            hint=f"did you mean {close[0]}?" if close else f"shipped: {', '.join(JOBS)}",
        )


def _run_shipped(name: str, arguments: tuple[str, ...], settings: Settings) -> None:
    command = importlib.import_module(JOBS[name]).main
    command.main(
        list(arguments), prog_name=f"headwater run {name}", standalone_mode=False, obj=settings
    )


def _run_own(path: Path, arguments: tuple[str, ...]) -> None:
    kept = sys.argv, sys.path
    sys.argv, sys.path = [str(path), *arguments], [str(path.parent.absolute()), *sys.path]
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv, sys.path = kept
