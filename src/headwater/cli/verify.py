"""`verify`: whether all that went in came out."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.follow_order import example, follow_and_exit, order_metrics
from headwater.cli.output import json_option, messages, print_json, print_table, with_settings
from headwater.cli.text import printable
from headwater.jobs.visits_ads.waiting import JoinExplainer
from headwater.settings import Settings
from headwater.tracing import VerifyReport, Violation
from headwater.tracing import verify as verify_topic

_SETTLE_SECONDS = 10.0


@click.command()
@click.argument("topic")
@click.option("--source", required=True, metavar="TOPIC", help="The topic it was made from.")
@click.option(
    "--order", is_flag=True, help="Show which keys have inversions, gaps or duplicates, and where."
)
@click.option(
    "--follow",
    is_flag=True,
    help="Judge the order while the topic grows, and print what is found as it is found, until "
    "Ctrl-C.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --follow: end after so long.",
)
@click.option(
    "--max", "limit", type=click.IntRange(min=1), help="With --follow: end after so many records."
)
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --follow: a record that a later one of its key has overtaken is a gap if it has "
    "no output so long after.  [default: 10]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="With --follow: offer counters for Prometheus on this port of 127.0.0.1.",
)
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write counters for Prometheus to this file.",
)
@click.option(
    "--allow-filtered",
    is_flag=True,
    help="The job drops records on purpose: what its checkpoint says was read, and has no "
    "output, is filtered and not missing.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Of the job, if it is not in HEADWATER_HOME/checkpoints.",
)
@json_option
@click.pass_context
@with_settings
def verify(
    settings: Settings,
    ctx: click.Context,
    topic: str,
    source: str,
    order: bool,
    follow: bool,
    seconds: float | None,
    limit: int | None,
    settle: float | None,
    metrics_port: int | None,
    metrics_file: Path | None,
    allow_filtered: bool,
    checkpoint: Path | None,
    as_json: bool,
) -> None:
    """Hold a topic against its source: lost, duplicate, out of order, without lineage.

    Dead-lettered records are counted apart, not as missing; so are those that a join still holds
    or that found no match in it, and filtered ones if --allow-filtered says that there are any.
    Exits 0 only if every record of the source is accounted for, once, in order per key; an empty
    source is no pass.

    With --follow it exits 0 only if records were judged and all were in order. Gaps are then
    records that a later one of the same key has overtaken; with --allow-filtered they are not
    judged.
    """
    if follow:
        if checkpoint is not None:
            raise click.UsageError("--checkpoint is not read with --follow")
        follow_and_exit(
            ctx,
            settings,
            topic,
            source,
            seconds=seconds,
            limit=limit,
            settle=_SETTLE_SECONDS if settle is None else settle,
            gaps=not allow_filtered,
            metrics_port=metrics_port,
            metrics_file=metrics_file,
            as_json=as_json,
        )
    given = {"--for": seconds, "--max": limit, "--settle": settle, "--metrics-port": metrics_port}
    for option, value in given.items():
        if value is not None:
            raise click.UsageError(f"{option} goes with --follow")
    # Both topics are read whole; a million records take some twenty seconds.
    with messages.status(f"reading {topic} and {source}"):
        report = verify_topic(
            topic,
            source,
            settings,
            allow_filtered=allow_filtered,
            checkpoint=checkpoint,
            explainers=[JoinExplainer(settings)],
        )
    with order_metrics(topic, None, metrics_file) as tell:
        tell(report.scanned, report.violations)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
        if order:
            _show_examples(report)
            _show_keys(report)
    ctx.exit(0 if report.passed else 1)


def _show(report: VerifyReport) -> None:
    # Rounded down: a million with one missing are not 100 %.
    share = int(report.coverage * 10_000) / 100
    click.echo(
        f"{report.topic}, made from {report.source}: {report.state.value}, "
        f"{share:g} % of the source accounted for"
    )
    rows = [
        ("expected", report.expected, "records of the source"),
        ("found", report.found, "with an output"),
        ("missing", report.missing, f"without; ranges of offsets: {report.gaps}"),
        ("dead-lettered", report.dead_lettered, "without, and told why"),
        ("filtered", report.filtered, "without, on purpose"),
        *([("waiting", report.waiting, "in the state of a join")] if report.waiting else []),
        ("scanned", report.scanned, "records of the topic"),
        ("duplicates", report.duplicates, "copies of an earlier record"),
        ("out of order", report.out_of_order, "behind a later one of the same key"),
        ("without lineage", report.without_lineage, ""),
    ]
    # Of these nobody wants to hear unless there are some.
    special = [
        ("unreadable", report.unreadable, "lineage headers"),
        ("unknown parents", report.unknown_parents, "outputs of records that never were"),
        ("gone parents", report.gone_parents, "no longer in the source"),
        ("unlisted parents", report.unlisted_parents, "so many of the missing may have outputs"),
        ("without key", report.without_key, "not held to an order"),
    ]
    print_table(("what", "number", ""), rows + [row for row in special if row[1]])


def _show_examples(report: VerifyReport) -> None:
    for gap in report.gap_examples:
        until = f" to {gap.last}" if gap.last != gap.first else ""
        click.echo(f"missing: {gap.first}{until}")
    for kind, findings in report.examples.items():
        for finding in findings:
            key = f", key {printable(finding.key)}" if finding.after is not None else ""
            click.echo(f"{kind.replace('_', ' ')}: {example(finding)}{key}")


def _show_keys(report: VerifyReport) -> None:
    keys = report.keys
    if not keys.affected:
        click.echo("every key is in order: no inversions, gaps or duplicates")
        return
    rows = [
        (
            printable(each.key),
            *(each.counts[kind] for kind in Violation),
            "; ".join(f"{kind.value} {example(found[0])}" for kind, found in each.examples.items()),
        )
        for each in keys.first.values()
    ]
    click.echo(f"keys that are not in order: {keys.affected}")
    print_table(("key", *(kind.plural for kind in Violation), "the first of each"), rows)
    if len(rows) < keys.affected:
        click.echo(f"and {keys.affected - len(rows)} more keys")
