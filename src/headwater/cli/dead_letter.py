"""`dead-letter list|redrive`: records that jobs sent to dead letter topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.options import RenamedOption
from headwater.cli.output import messages, reading_progress
from headwater.cli.parsing import parse_time
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import json_text, printable
from headwater.delivery.dead_letter import (
    DeadLetterFilter,
    Handled,
    Listed,
    RedriveOutcome,
    RedriveReport,
    Summary,
    list_dead_letters,
)
from headwater.delivery.dead_letter import redrive as redrive_letters
from headwater.delivery.dead_letter.redrive import MAX_REDRIVES
from headwater.model import Address
from headwater.model.dead_letter import DeadLetter
from headwater.settings import Settings

_SHOWN = 100
_VALUE_SHOWN = 70

_reason = click.option("--reason", metavar="KIND", help="Only those with this reason.")
_lines = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


@click.group("dead-letter")
def dead_letter() -> None:
    """List records in dead letter topics, and send them back."""


@dead_letter.command("list")
@click.argument("topic")
@_reason
@click.option("--since", metavar="TIME", help="Only those written at or after, in ISO 8601.")
@click.option("--until", metavar="TIME", help="Only those written before.")
@click.option(
    "--redriven-to",
    "target",
    cls=RenamedOption,
    former=["--to"],
    metavar="TOPIC",
    help="Look for redriven records in this topic.",
)
@click.option(
    "--limit",
    cls=RenamedOption,
    former=["--max"],
    type=click.IntRange(min=1),
    help="Maximum number to show.",
)
@_lines
@with_settings
def list_(
    settings: Settings,
    topic: str,
    reason: str | None,
    since: str | None,
    until: str | None,
    target: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show the records that could not be processed, and why.

    TOPIC is a job's output, or its dead letter topic. Shows the first 100, or --limit; the summary
    counts all.
    """
    choice = DeadLetterFilter(
        reason, since=parse_time(since, "--since"), until=parse_time(until, "--until")
    )
    with reading_progress() as progress:
        summary, letters = list_dead_letters(
            topic, settings, choice=choice, target=target, progress=progress
        )
        for number, listed in enumerate(letters):
            if as_json and (limit is None or number < limit):
                click.echo(json_text(_as_object(listed)))
            elif not as_json and number < (limit or _SHOWN):
                for line in _block(listed):
                    click.echo(line)
    if not as_json:
        _sum_up(summary, limit or _SHOWN)


@dead_letter.command()
@click.argument("topic")
@click.option("--to", "target", metavar="TOPIC", help="Default: the original topic of each.")
@_reason
@click.option(
    "--record",
    "records",
    multiple=True,
    metavar="ADDRESS",
    help="Address of a dead letter or of its original record. May be repeated.",
)
@click.option(
    "--limit",
    cls=RenamedOption,
    former=["--max"],
    type=click.IntRange(min=1),
    help="Maximum number to send.",
)
@click.option(
    "--max-redrives",
    default=MAX_REDRIVES,
    show_default=True,
    type=click.IntRange(min=1),
    help="Refuse records that were redriven this often and failed again.",
)
@click.option(
    "--allow-unproven",
    is_flag=True,
    help="Send also if retention or compaction may have removed an earlier copy.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent; send nothing.")
@_lines
@click.pass_context
@with_settings
def redrive(
    settings: Settings,
    ctx: click.Context,
    topic: str,
    target: str | None,
    reason: str | None,
    records: tuple[str, ...],
    limit: int | None,
    max_redrives: int,
    allow_unproven: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send records back to the topics they came from, each once.

    TOPIC is a job's output, or its dead letter topic. Records that were redriven before are left
    out, also after an interrupted redrive. Exits 1 if a record was refused; the reason is shown.
    """
    from headwater.settings import arm_fault_points

    arm_fault_points(settings)
    choice = DeadLetterFilter(reason, frozenset(Address.parse(record) for record in records))
    with reading_progress() as progress:
        report = redrive_letters(
            topic,
            settings,
            target=target,
            choice=choice,
            limit=limit,
            max_redrives=max_redrives,
            allow_unproven=allow_unproven,
            dry_run=dry_run,
            on_handled=lambda handled: _show(handled, dry_run, as_json),
            progress=progress,
        )
    _sum_up_redrive(report)
    ctx.exit(0 if report.passed else 1)


def _block(listed: Listed) -> Iterator[str]:
    """Three lines, as addresses and reasons are too long for a table."""
    letter = listed.letter
    reason = _plain(letter.reason) or "no readable headers"
    message = f": {_plain(letter.message)}" if letter.message else ""
    yield f"{letter.address}  {reason}{message}"
    parts = [f"made from {letter.origin or 'an unknown record'}"]
    if letter.job_name is not None:
        parts[0] += f" by {_plain(letter.job_name)}"
    if letter.batch is not None:
        parts.append(f"batch {letter.batch}")
    if letter.redrives:
        parts.append(f"failed again after {letter.redrives} redrives")
    if listed.copy is not None:
        parts.append(f"redriven as {listed.copy}")
    yield f"    {', '.join(parts)}"
    yield f"    {_value(letter)}"


def _value(letter: DeadLetter) -> str:
    if letter.reference is not None:
        return f"{letter.reference.size} bytes, by reference"
    text = printable((letter.record.value or b"")[: _VALUE_SHOWN * 4])
    if letter.record.value is None:
        return "null"
    return text if len(text) <= _VALUE_SHOWN else text[: _VALUE_SHOWN - 1] + "…"


def _as_object(listed: Listed) -> dict[str, Any]:
    letter = listed.letter
    reference = letter.reference
    return {
        "address": str(letter.address),
        "origin": str(letter.origin) if letter.origin else None,
        "job_name": _text(letter.job_name),
        "batch_version": letter.batch,
        "reason": _text(letter.reason),
        "message": _text(letter.message),
        "timestamp": letter.record.timestamp_ms,
        "key": bytes_as_json(letter.record.key),
        "value": bytes_as_json(letter.record.value),
        "reference": {"size": reference.size, "sha256": reference.sha256} if reference else None,
        "redrives": letter.redrives,
        "redriven": str(listed.copy) if listed.copy else None,
    }


def _sum_up(summary: Summary, shown: int) -> None:
    click.echo(f"{summary.topic}: {summary.total} dead letters, {summary.redriven} redriven")
    for reason, count in summary.reasons.most_common():
        click.echo(f"  {count}  {_plain(reason)}")
    if shown < summary.total:
        messages.print(f"{shown} of {summary.total} shown; --limit N shows more", markup=False)


def _show(handled: Handled, dry_run: bool, as_json: bool) -> None:
    letter = handled.letter
    if as_json:
        content = {
            "address": str(letter.address),
            "origin": str(letter.origin) if letter.origin else None,
            "target": handled.target,
            "outcome": handled.outcome.value,
            "why": handled.why or None,
            "dry_run": dry_run,
        }
        click.echo(json_text(content))
    elif handled.outcome is RedriveOutcome.REDRIVEN:
        done = "would be redriven" if dry_run else "redriven"
        click.echo(f"{letter.address}  {done} to {handled.target}")
    else:
        click.echo(f"{letter.address}  {handled.outcome.value}: {handled.why}")


def _sum_up_redrive(report: RedriveReport) -> None:
    counts = {outcome.value: count for outcome, count in report.counts.items()}
    if report.dry_run and RedriveOutcome.REDRIVEN.value in counts:
        counts = {"would be redriven": counts.pop(RedriveOutcome.REDRIVEN.value), **counts}
    text = ", ".join(f"{count} {what}" for what, count in counts.items()) or "nothing to redrive"
    messages.print(f"{report.topic}: {text}", markup=False)


def _plain(text: str | None) -> str:
    """Text of a header, safe to print on one line."""
    return "" if text is None else printable(text.encode("utf-8", "surrogateescape"))


def _text(text: str | None) -> Any:
    return None if text is None else bytes_as_json(text.encode("utf-8", "surrogateescape"))
