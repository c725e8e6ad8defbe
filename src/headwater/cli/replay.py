"""`replay TRANSFORM …`, `replay list|show|verify|undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headwater.cli.app import with_settings
from headwater.cli.options import RenamedOption
from headwater.cli.output import (
    download_progress,
    json_option,
    messages,
    print_json,
    print_table,
    reading_progress,
)
from headwater.cli.replay_text import manifest_lines, plan_lines, print_differences
from headwater.settings import Settings
from headwater.settings.path_option import PathOption

if TYPE_CHECKING:
    from headwater.replay.operation import LazySparkSession
    from headwater.replay.plan import Plan
    from headwater.replay.planning import PlannedReplay
    from headwater.replay.request import Request

_COMPARED = 10
_LISTED = ("replay_id", "began", "logic", "job_version", "topic", "records", "target", "state")


class ReplayGroup(click.Group):
    """A group whose first word may also be the name of a transform."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "TRANSFORM [OPTIONS] | list | show | verify | undo")


@click.group("replay", cls=ReplayGroup)
def replay() -> None:
    """Run archived records through a job's transform again: exactly those, in order, once.

    TRANSFORM is a shipped one (visits_converter, visits_decorator, visits_reducer), or your own
    as `module:name` or `path/to/file.py:name`. `headwater replay run --help` lists the options
    that select records; all of them must match.
    """


@replay.command()
@click.argument("transform")
@click.option("--offsets", metavar="JSON", help='`{"visits":{"0":[0,2]}}`; -2 earliest, -1 latest.')
@click.option("--since", metavar="TIME", help="Records written at or after this time, in ISO 8601.")
@click.option("--until", metavar="TIME", help="Records written before this time.")
@click.option("--key", help="Records with this key.")
@click.option("--where", metavar="SQL", help="A predicate on the decoded value: `page = 'home'`.")
@click.option(
    "--inputs-of",
    "outputs",
    multiple=True,
    metavar="ADDRESS",
    help="The records that this one was made from. May be repeated.",
)
@click.option("--made-by", metavar="JOB", help="The records that a job's output was made from.")
@click.option("--made-by-version", metavar="V", help="With --made-by: only this version.")
@click.option("--batches", metavar="A..B", help="With --made-by: only these micro-batches.")
@click.option("--from", "source", metavar="TOPIC", help="Default: the transform's input topic.")
@click.option("--to", "topic", metavar="TOPIC", help="Default: the transform's output topic.")
@click.option(
    "--to-table",
    "table",
    type=PathOption(file_okay=False, table=True),
    help="A Delta table instead of a topic; this can be undone.",
)
@click.option("--job-name", help="Job name of the output. Default: the transform's.")
@click.option(
    "--as-version",
    "job_version",
    cls=RenamedOption,
    former=["--job-version"],
    help="Job version of the output. Default: the setting jobs.version.",
)
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "transactional", "strict"]),
    metavar="[exactly-once|transactional]",
    default="exactly-once",
    show_default=True,
    help="Into a topic: on one driver, or with transactions, which also works on clusters.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@click.option("--diff", is_flag=True, help="Compare old and new results and write nothing.")
@click.option(
    "--limit",
    cls=RenamedOption,
    former=["--sample"],
    default=_COMPARED,
    show_default=True,
    help="With --diff: number of input records.",
)
@click.option("--skip-existing", is_flag=True, help="Skip results that exist with this content.")
@click.option("--allow-gaps", is_flag=True, help="Continue without records that are not archived.")
@click.option(
    "--allow-ranges",
    is_flag=True,
    help="With --inputs-of and --made-by: replay all records of ranges that contain the inputs.",
)
@click.option("--force", is_flag=True, help="Allow the source topic as the target.")
@click.option("--again", is_flag=True, help="Run even if the same replay was done before.")
@json_option
@click.pass_context
@with_settings
def run(settings: Settings, ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Replay archived records through TRANSFORM.

    The same replay writes nothing a second time; an interrupted one is resumed.
    """
    from headwater.cli.replay_request import parse_request
    from headwater.replay.operation import run_planned
    from headwater.replay.planning import make_plan
    from headwater.replay.results import count_results
    from headwater.settings import arm_fault_points

    arm_fault_points(settings)
    request = parse_request(settings, options)
    with download_progress() as progress:
        session = _session(settings, progress)
        planned = make_plan(request, settings, session)
        if options["dry_run"]:
            with reading_progress() as reading:
                existing = count_results(planned.plan, settings, reading)
            if as_json:
                print_json(_planned_json(planned, existing))
            else:
                click.echo("\n".join(plan_lines(planned, existing)))
            return
        if options["diff"]:
            _show_differences(planned.plan, request, session, settings, options["limit"], as_json)
            return
        outcome = run_planned(planned, request, settings, session)
    content = outcome.folder.manifest_content()
    if content is None:
        ctx.exit(1)
    if as_json:
        print_json({**content, "new": outcome.new})
        return
    if not outcome.new:
        click.echo(f"replay {outcome.folder.replay_id} is already done: nothing was written")
        messages.print("--again repeats it", markup=False)
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
                "logic": plan.transform,
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
    headings = ["transform" if name == "logic" else name for name in _LISTED]
    print_table(headings, [[row[name] for name in _LISTED] for row in rows])


@replay.command()
@click.argument("replay_id")
@json_option
@with_settings
def show(settings: Settings, replay_id: str, as_json: bool) -> None:
    """Show a replay: its plan and its result."""
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
    """Compare a replay's manifest with the archive and the target; exit 1 on a difference."""
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
        click.echo("the replay matches its manifest" if check.passed else "differences were found")
    if not check.passed:
        ctx.exit(1)


@replay.command()
@click.argument("replay_id")
@json_option
@with_settings
def undo(settings: Settings, replay_id: str, as_json: bool) -> None:
    """Delete the rows that a replay wrote to a table, and no others."""
    from headwater.replay.folder import find_replay
    from headwater.replay.operation import undo_replay

    folder = find_replay(replay_id, settings)
    with download_progress() as progress:
        manifest = undo_replay(folder, settings, _session(settings, progress))
    if as_json:
        print_json(folder.manifest_content())
    else:
        click.echo(f"{manifest.undone_rows} rows of replay {folder.replay_id} were deleted")


def _session(settings: Settings, progress: Any) -> LazySparkSession:
    from headwater.replay.operation import LazySparkSession

    return LazySparkSession(settings, progress)


def _show_differences(
    plan: Plan,
    request: Request,
    session: LazySparkSession,
    settings: Settings,
    limit: int,
    as_json: bool,
) -> None:
    from headwater.replay.preview import preview

    differences = preview(plan, request.transform, session(), settings, limit)
    print_differences(differences, as_json)


def _planned_json(planned: PlannedReplay, existing: int) -> dict[str, Any]:
    return {
        **planned.plan.as_json(),
        "record_count": planned.plan.record_count,
        "files": list(planned.files),
        "archive_version": planned.archive_version,
        "behind": {str(partition): number for partition, number in planned.lag.items()},
        "already_there": existing,
        "can_be_undone": planned.plan.can_be_undone,
        "state": planned.existing.state() if planned.existing is not None else "new",
    }
