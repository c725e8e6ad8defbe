"""`verify --follow`: the order proof while a topic grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from headwater.cli.output import messages, stopped_by_signals
from headwater.cli.text import json_text, printable
from headwater.settings import Settings
from headwater.storage.metrics_export import serve, write_file
from headwater.tracing import Finding, Found, OrderProof, OrderReport, Violation
from headwater.tracing.order_metrics import OrderMetrics

_STATUS_SECONDS = 10.0

# Takes how many records were judged, and the violations by kind.
Tell = Callable[[int, Mapping[Violation, int]], None]


def follow_order(
    proof: OrderProof,
    *,
    seconds: float | None,
    limit: int | None,
    tell: Tell,
    as_json: bool,
) -> OrderReport:
    """Print what is found, as it is found, until a signal or a bound ends it."""
    report = proof.report
    began = told = time.monotonic()
    messages.print(f"following {report.topic} and {report.source}", markup=False)
    with stopped_by_signals() as stopped:
        while not stopped.is_set():
            found = proof.step()
            now = time.monotonic()
            if found or now - told >= _STATUS_SECONDS:
                # Before it is printed: who reads a line finds it counted.
                tell(report.judged, report.found)
            _print(found, as_json)
            if now - told >= _STATUS_SECONDS:
                told = now
                messages.print(_status(report), markup=False)
            if seconds is not None and now - began >= seconds:
                break
            if limit is not None and report.judged >= limit:
                break
        _print(proof.finish(), as_json)
    tell(report.judged, report.found)
    return report


def show_end(report: OrderReport, as_json: bool) -> None:
    """The last line: an object of kind `end`, or a sentence."""
    if as_json:
        click.echo(json_text({"kind": "end", **report.as_json()}))
        return
    word = "in order" if report.passed else "NOT in order"
    click.echo(f"{report.topic}, made from {report.source}: {word}; {_status(report)}")


@contextmanager
def order_metrics(topic: str, port: int | None, file: Path | None) -> Iterator[Tell]:
    """Counters on a port, in a file, on both or nowhere."""
    if port is None and file is None:
        yield lambda judged, found: None
        return
    metrics = OrderMetrics(topic, [kind.value for kind in Violation])

    def tell(judged: int, found: Mapping[Violation, int]) -> None:
        metrics.update(judged, {kind.value: found.get(kind, 0) for kind in Violation})
        if file is not None:
            write_file(metrics.registry, file)

    # At once: a file that can't be written is told before hours of following.
    tell(0, {})
    if port is None:
        yield tell
        return
    with serve(metrics.registry, port) as address:
        messages.print(f"metrics at {address}", markup=False)
        yield tell


def follow_and_exit(
    ctx: click.Context,
    settings: Settings,
    topic: str,
    source: str,
    *,
    seconds: float | None,
    limit: int | None,
    settle: float,
    gaps: bool,
    metrics_port: int | None,
    metrics_file: Path | None,
    as_json: bool,
) -> None:
    with (
        OrderProof(topic, source, settings, settle_seconds=settle, gaps=gaps) as proof,
        order_metrics(topic, metrics_port, metrics_file) as tell,
    ):
        report = follow_order(proof, seconds=seconds, limit=limit, tell=tell, as_json=as_json)
    show_end(report, as_json)
    ctx.exit(0 if report.passed else 1)


def example(finding: Finding) -> str:
    """A finding as a person reads it."""
    text = str(finding.record)
    if finding.parent is not None:
        text += f", made from {finding.parent}"
    if finding.after is not None and finding.parent is not None:
        text += f", comes after one made from {finding.after}"
    elif finding.after is not None:
        text += f" has no output, {finding.after} comes from a later one"
    return text


def _print(found: list[Found], as_json: bool) -> None:
    for each in found:
        if as_json:
            click.echo(json_text(each.as_json()))
        else:
            key = printable(each.key)
            click.echo(f"{each.kind.value}: {example(each.finding)}, key {key}")


def _status(report: OrderReport) -> str:
    counts = [(report.judged, "judged")]
    counts += [(report.found[kind], kind.plural) for kind in Violation]
    rare = [
        (report.without_lineage, "without lineage"),
        (report.unknown_parents, "with parents that never were"),
        (report.other_parents, "made from other topics"),
        (report.without_key, "without a key"),
        (report.waiting, "waiting for the source"),
        (report.forgotten, "of the source no longer watched for"),
    ]
    return ", ".join(f"{number} {what}" for number, what in counts + [r for r in rare if r[0]])
