"""`verify`: compare a topic with its source."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.app import with_settings
from headwater.cli.follow_order import example, follow_and_exit, order_metrics
from headwater.cli.options import RenamedOption
from headwater.cli.output import json_option, messages, print_json, print_table
from headwater.cli.text import printable
from headwater.join.fates import verify as verify_topic
from headwater.settings import Settings
from headwater.settings.path_option import PathOption
from headwater.tracing import VerifyReport, Violation

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
    help="Check the order while the topic grows, and print violations as they occur, until Ctrl-C.",
)
@click.option(
    "--timeout",
    cls=RenamedOption,
    former=["--for"],
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --follow: stop after this time.",
)
@click.option(
    "--limit",
    cls=RenamedOption,
    former=["--max"],
    type=click.IntRange(min=1),
    help="With --follow: stop after this number of records.",
)
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --follow: an overtaken record without an output is a gap after this time.  "
    "[default: 10]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="With --follow: serve counters for Prometheus on this port of 127.0.0.1.",
)
@click.option(
    "--metrics-file",
    type=PathOption(dir_okay=False),
    help="Write counters for Prometheus to this file.",
)
@click.option(
    "--allow-filtered",
    is_flag=True,
    help="The job drops records on purpose: committed records without an output are filtered, "
    "not missing.",
)
@click.option(
    "--allow-ranges",
    is_flag=True,
    help="The job has steps that are not followed row by row: records within the ranges of outputs "
    "pass.",
)
@click.option(
    "--checkpoint",
    type=PathOption(exists=True, file_okay=False),
    help="Checkpoint of the job, if not in HEADWATER_HOME/checkpoints.",
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
    timeout: float | None,
    limit: int | None,
    settle: float | None,
    metrics_port: int | None,
    metrics_file: Path | None,
    allow_filtered: bool,
    allow_ranges: bool,
    checkpoint: Path | None,
    as_json: bool,
) -> None:
    """Compare a topic with its source: missing, duplicate and out-of-order records, and missing
    lineage.

    Dead-lettered records do not count as missing, nor do those that wait in a join or found no
    match, nor filtered ones with --allow-filtered. Exits 0 only if every record of the source is
    accounted for, once, in order per key; an empty source fails. Records of which is only known
    that they lie within ranges are not missing, but pass only with --allow-ranges.

    With --follow, exits 0 only if at least one record was checked and all were in order. Gaps are
    then records that a later one of the same key has overtaken; --allow-filtered ignores gaps.
    """
    if follow:
        if checkpoint is not None:
            raise click.UsageError("--checkpoint can't be used with --follow")
        follow_and_exit(
            ctx,
            settings,
            topic,
            source,
            timeout=timeout,
            limit=limit,
            settle=_SETTLE_SECONDS if settle is None else settle,
            gaps=not allow_filtered,
            metrics_port=metrics_port,
            metrics_file=metrics_file,
            as_json=as_json,
        )
    follow_options = {
        "--timeout": timeout,
        "--limit": limit,
        "--settle": settle,
        "--metrics-port": metrics_port,
    }
    for option, value in follow_options.items():
        if value is not None:
            raise click.UsageError(f"{option} requires --follow")
    # Reads both topics completely: about twenty seconds for a million records.
    with messages.status(f"reading {topic} and {source}"):
        report = verify_topic(
            topic,
            source,
            settings,
            allow_filtered=allow_filtered,
            allow_ranges=allow_ranges,
            checkpoint=checkpoint,
        )
    with order_metrics(topic, None, metrics_file) as update:
        update(report.scanned, report.violations)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
        if order:
            _show_examples(report)
            _show_keys(report)
    ctx.exit(0 if report.passed else 1)


def _show(report: VerifyReport) -> None:
    # Rounded down: one missing record in a million is not 100 %.
    share = int(report.coverage * 10_000) / 100
    click.echo(
        f"{report.topic}, made from {report.source}: {report.state.value}, "
        f"{share:g} % of the source accounted for"
    )
    ranges = "1 range" if report.gaps == 1 else f"{report.gaps} ranges"
    rows = [
        ("expected", report.expected, "records of the source"),
        ("found", report.found, "with an output"),
        *([("within", report.within, "in ranges of outputs")] if report.within else []),
        ("missing", report.missing, f"without an output, in {ranges}"),
        (
            "dead-lettered",
            report.dead_lettered,
            "without an output, with a dead letter",
        ),
        ("filtered", report.filtered, "without an output, on purpose"),
        *([("waiting", report.waiting, "in the state of a join")] if report.waiting else []),
        ("scanned", report.scanned, "records of the topic"),
        ("duplicates", report.duplicates, "copies of an earlier record"),
        ("out of order", report.out_of_order, "after a later one of the same key"),
        ("without lineage", report.without_lineage, ""),
    ]
    # Shown only if not zero.
    optional = [
        ("unreadable", report.unreadable, "lineage headers"),
        ("unknown parents", report.unknown_parents, "outputs of records that never existed"),
        ("gone parents", report.gone_parents, "no longer in the source"),
        (
            "unlisted parents",
            report.unlisted_parents,
            "missing records may be among them",
        ),
        ("without key", report.without_key, "order not checked"),
        ("made from ranges", report.made_from_ranges, "neither duplicates nor order checked"),
        ("more parents", report.more_parents, "may have others, which are not known"),
    ]
    print_table(("what", "number", ""), rows + [row for row in optional if row[1]])


def _show_examples(report: VerifyReport) -> None:
    for gap in report.gap_examples:
        end = f" to {gap.last}" if gap.last != gap.first else ""
        click.echo(f"missing: {gap.first}{end}")
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
            "; ".join(f"{kind.value} {example(first[0])}" for kind, first in each.examples.items()),
        )
        for each in keys.first.values()
    ]
    click.echo(f"keys with violations: {keys.affected}")
    print_table(("key", *(kind.plural for kind in Violation), "first of each"), rows)
    if len(rows) < keys.affected:
        click.echo(f"and {keys.affected - len(rows)} more keys")
