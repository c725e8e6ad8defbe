"""`replay LOGIC …`, `replay list|show|verify|undo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.output import (
    download_progress,
    json_option,
    messages,
    print_json,
    print_table,
    reading_progress,
    with_settings,
)
from headwater.cli.replay_text import manifest_lines, plan_lines, print_differences
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.replay.operation import Session
    from headwater.replay.plan import Plan
    from headwater.replay.planning import Planned, Request

_SAMPLE = 10


class ReplayGroup(click.Group):
    """A group whose first word may also be the name of a logic."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "LOGIC [OPTIONS] | list | show | verify | undo")


@click.group("replay", cls=ReplayGroup)
def replay() -> None:
    """Run archived records through a job's logic again: exactly those, in order, once.

    LOGIC is a shipped one (visits_converter, visits_decorator, visits_reducer), or one of your
    own as `module:name` or `path/to/file.py:name`. `headwater replay run --help` lists the ways
    to select records; all that is given has to hold at once.
    """


@replay.command()
@click.argument("logic")
@click.option("--offsets", metavar="JSON", help='`{"visits":{"0":[0,2]}}`; -2 earliest, -1 latest.')
@click.option("--since", metavar="TIME", help="Records written at or after, in ISO 8601.")
@click.option("--until", metavar="TIME", help="Records written before.")
@click.option("--key", help="Records with this key.")
@click.option("--where", metavar="SQL", help="A predicate on the decoded value: `page = 'home'`.")
@click.option(
    "--inputs-of",
    "outputs",
    multiple=True,
    metavar="ADDRESS",
    help="What this record was made from. May be repeated.",
)
@click.option("--made-by", metavar="JOB", help="What everything that a job made was made from.")
@click.option("--made-by-version", metavar="V", help="Of that job, only this version.")
@click.option("--batches", metavar="A..B", help="Of that job, only these micro-batches.")
@click.option("--from", "source", metavar="TOPIC", help="Default: the logic's own input.")
@click.option("--to", "topic", metavar="TOPIC", help="Default: the logic's own output.")
@click.option(
    "--to-table",
    "table",
    type=click.Path(file_okay=False, path_type=Path),
    help="A Delta table instead; this can be undone.",
)
@click.option("--job-name", help="Of which the records are; default: the logic's own.")
@click.option("--job-version", help="Default: the setting jobs.version.")
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "strict"]),
    default="exactly-once",
    show_default=True,
    help="Into a topic: on one driver, or with transactions on clusters, too.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@click.option("--diff", is_flag=True, help="Show old results beside new ones and write nothing.")
@click.option("--sample", default=_SAMPLE, show_default=True, help="Records that --diff takes.")
@click.option("--skip-existing", is_flag=True, help="Leave out what is there with this content.")
@click.option("--allow-gaps", is_flag=True, help="Go on without records that are not archived.")
@click.option("--force", is_flag=True, help="Write even into the topic that is replayed.")
@click.option("--again", is_flag=True, help="Do it though the same was done before.")
@json_option
@click.pass_context
@with_settings
def run(settings: Settings, ctx: click.Context, /, as_json: bool, **given: Any) -> None:
    """Replay archived records through LOGIC.

    Done a second time the same replay writes nothing; one that was cut off goes on.
    """
    from headwater.cli.replay_request import request_of
    from headwater.replay.operation import run_planned
    from headwater.replay.planning import make_plan
    from headwater.replay.results import count_results
    from headwater.settings import fault_points

    fault_points.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")
    request = request_of(settings, given)
    with download_progress() as progress:
        session = _session(settings, progress)
        planned = make_plan(request, settings, session)
        if given["dry_run"]:
            with reading_progress() as reading:
                there = count_results(planned.plan, settings, reading)
            if as_json:
                print_json(_planned_json(planned, there))
            else:
                click.echo("\n".join(plan_lines(planned, there)))
            return
        if given["diff"]:
            _show_differences(planned.plan, request, session, settings, given["sample"], as_json)
            return
        outcome = run_planned(planned, request, settings, session)
    content = outcome.folder.manifest_content()
    if content is None:
        ctx.exit(1)
    if as_json:
        print_json({**content, "new": outcome.new})
        return
    if not outcome.new:
        click.echo(f"replay {outcome.folder.replay_id} was done before: nothing is written")
        messages.print("--again does it once more", markup=False)
        return
    click.echo("\n".join(manifest_lines(content)))


@replay.command("list")
@json_option
@with_settings
def list_(settings: Settings, as_json: bool) -> None:
    """List all replays of this home, oldest first."""
    from headwater.replay.folder import all_replays

    rows = []
    for folder in all_replays(settings):
        plan = folder.plan()
        rows.append(
            {
                "replay_id": folder.replay_id,
                "began": folder.began(),
                "logic": plan.logic,
                "job_version": plan.job_version,
                "topic": plan.topic,
                "records": plan.record_count,
                "target": plan.target,
                "state": folder.state(),
            }
        )
    if as_json:
        print_json(rows)
        return
    headings = ("replay_id", "began", "logic", "job_version", "topic", "records", "target", "state")
    print_table(headings, [[row[name] for name in headings] for row in rows])


@replay.command()
@click.argument("replay_id")
@json_option
@with_settings
def show(settings: Settings, replay_id: str, as_json: bool) -> None:
    """Show a replay: its plan, and what it did."""
    from headwater.replay.folder import find_replay

    folder = find_replay(replay_id, settings)
    content = folder.manifest_content()
    if content is None:
        content = {
            "state": folder.state(),
            "began": folder.began(),
            "plan": folder.plan().as_json(),
        }
    if as_json:
        print_json(content)
    else:
        click.echo("\n".join(manifest_lines(content)))


@replay.command()
@click.argument("replay_id")
@json_option
@click.pass_context
@with_settings
def verify(settings: Settings, ctx: click.Context, replay_id: str, as_json: bool) -> None:
    """Hold a replay's manifest against the archive and the target; exit 1 if something is off."""
    from headwater.replay.checking import check_replay
    from headwater.replay.folder import find_replay

    folder = find_replay(replay_id, settings)
    with download_progress() as progress, reading_progress() as reading:
        check = check_replay(folder, settings, _session(settings, progress), reading)
    if as_json:
        print_json(check.as_json())
    else:
        click.echo(f"replay {check.replay_id}: {check.read.records} records read from the archive")
        click.echo(f"{check.written.records} records found in {folder.plan().target}")
        for finding in check.findings:
            click.echo(f"  {finding}")
        click.echo("all of it fits" if check.passed else "it does not fit")
    if not check.passed:
        ctx.exit(1)


@replay.command()
@click.argument("replay_id")
@json_option
@with_settings
def undo(settings: Settings, replay_id: str, as_json: bool) -> None:
    """Take back what a replay wrote to a table: its rows and no others."""
    from headwater.replay.folder import find_replay
    from headwater.replay.undoing import undo_replay

    folder = find_replay(replay_id, settings)
    with download_progress() as progress:
        manifest = undo_replay(folder, settings, _session(settings, progress))
    if as_json:
        print_json(folder.manifest_content())
    else:
        click.echo(f"{manifest.undone_rows} rows of replay {folder.replay_id} were taken back")


def _session(settings: Settings, progress: Any) -> Session:
    from headwater.replay.operation import Session

    return Session(settings, progress)


def _say(line: str) -> None:
    messages.print(f"replay: {line}", markup=False)


def _show_differences(
    plan: Plan, request: Request, session: Session, settings: Settings, sample: int, as_json: bool
) -> None:
    from headwater.replay.preview import preview

    differences = preview(plan, request.logic, session(), settings, sample)
    print_differences(differences, as_json)


def _planned_json(planned: Planned, there: int) -> dict[str, Any]:
    return {
        **planned.plan.as_json(),
        "record_count": planned.plan.record_count,
        "files": list(planned.files),
        "archive_version": planned.archive_version,
        "behind": {str(partition): number for partition, number in planned.behind.items()},
        "already_there": there,
        "can_be_undone": planned.plan.can_be_undone,
        "state": planned.known.state() if planned.known is not None else "new",
    }
