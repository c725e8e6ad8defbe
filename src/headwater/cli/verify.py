"""`verify`: whether all that went in came out."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.frame import json_option, messages, print_json, print_table, with_settings
from headwater.cli.text import printable
from headwater.settings import Settings
from headwater.trace import VerifyReport
from headwater.trace import verify as verify_topic
from headwater.trace.report import Finding


@click.command()
@click.argument("topic")
@click.option("--source", required=True, metavar="TOPIC", help="The topic it was made from.")
@click.option("--order", is_flag=True, help="Show examples of gaps, duplicates and disorder.")
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
    allow_filtered: bool,
    checkpoint: Path | None,
    as_json: bool,
) -> None:
    """Hold a topic against its source: lost, duplicate, out of order, without lineage.

    Dead-lettered records are counted apart, not as missing, and so are filtered ones if
    --allow-filtered says that there are any. Exits 0 only if every record of the source is
    accounted for, once, in order per key; an empty source is no pass.
    """
    if checkpoint is not None and not allow_filtered:
        raise click.UsageError("--checkpoint is read only with --allow-filtered")
    # Both topics are read whole; a million records take some twenty seconds.
    with messages.status(f"reading {topic} and {source}"):
        report = verify_topic(
            topic, source, settings, allow_filtered=allow_filtered, checkpoint=checkpoint
        )
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
        if order:
            _show_examples(report)
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
            click.echo(f"{kind.replace('_', ' ')}: {_example(finding)}")


def _example(finding: Finding) -> str:
    text = str(finding.record)
    if finding.parent is not None:
        text += f", made from {finding.parent}"
    if finding.after is not None:
        text += f", comes after one made from {finding.after}, key {printable(finding.key)}"
    return text
