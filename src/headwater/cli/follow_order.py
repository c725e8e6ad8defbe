"""`verify --follow`: checks the order of a topic while it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
from prometheus_client import CollectorRegistry, Counter

from headwater.cli.output import messages, stopped_by_signals
from headwater.cli.text import json_text, printable
from headwater.settings import Settings
from headwater.storage.metrics_export import serve, write_file
from headwater.tracing import OrderCheck, OrderReport, OrderViolation, RecordFinding, Violation

_STATUS_SECONDS = 10.0

_VIOLATIONS = "headwater_order_violations_total"
_JUDGED = "headwater_order_judged_records_total"

# Called with the number of checked records and the violations by kind.
UpdateMetrics = Callable[[int, Mapping[Violation, int]], None]


def follow_order(
    check: OrderCheck,
    *,
    timeout: float | None,
    limit: int | None,
    update_metrics: UpdateMetrics,
    as_json: bool,
) -> OrderReport:
    """Print violations as they occur, until a signal or a limit."""
    report = check.report
    started = last_status = time.monotonic()
    messages.print(f"following {report.topic} and {report.source}", markup=False)
    with stopped_by_signals() as stopped:
        while not stopped.is_set():
            violations = check.step()
            now = time.monotonic()
            if violations or now - last_status >= _STATUS_SECONDS:
                # Before printing: a printed violation is already counted.
                update_metrics(report.judged, report.violations)
            _print(violations, as_json)
            if now - last_status >= _STATUS_SECONDS:
                last_status = now
                messages.print(_status(report), markup=False)
            if timeout is not None and now - started >= timeout:
                break
            if limit is not None and report.judged >= limit:
                break
        _print(check.finish(), as_json)
    update_metrics(report.judged, report.violations)
    return report


def show_end(report: OrderReport, as_json: bool) -> None:
    """Print the last line: an object of kind `end`, or a sentence."""
    if as_json:
        click.echo(json_text({"kind": "end", **report.as_json()}))
        return
    word = "in order" if report.passed else "NOT in order"
    click.echo(f"{report.topic}, made from {report.source}: {word}; {_status(report)}")


class OrderMetrics:
    """Counters of one topic, in a separate registry.

    Labels are bounded: one topic, and the given kinds. Each kind starts with 0, so that the rate
    includes the first violation.
    """

    def __init__(self, topic: str, kinds: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        violations = Counter(
            _VIOLATIONS,
            "Records that are out of order, missing between others of their key, or copies.",
            ("topic", "kind"),
            registry=self.registry,
        )
        judged = Counter(
            _JUDGED, "Records whose order was checked.", ("topic",), registry=self.registry
        )
        self._violations = {kind: violations.labels(topic, kind) for kind in kinds}
        self._judged = judged.labels(topic)
        self._last: dict[str, int] = dict.fromkeys(self._violations, 0)
        self._last_judged = 0

    def update(self, judged: int, violations: Mapping[str, int]) -> None:
        """Set the current totals, which never decrease."""
        self._judged.inc(judged - self._last_judged)
        self._last_judged = judged
        for kind, count in violations.items():
            self._violations[kind].inc(count - self._last[kind])
            self._last[kind] = count


@contextmanager
def order_metrics(topic: str, port: int | None, file: Path | None) -> Iterator[UpdateMetrics]:
    """Export counters on a port, to a file, both or neither."""
    if port is None and file is None:
        yield lambda judged, violations: None
        return
    metrics = OrderMetrics(topic, [kind.value for kind in Violation])

    def update(judged: int, violations: Mapping[Violation, int]) -> None:
        metrics.update(judged, {kind.value: violations.get(kind, 0) for kind in Violation})
        if file is not None:
            write_file(metrics.registry, file)

    # Now, so that an unwritable file is reported at the start.
    update(0, {})
    if port is None:
        yield update
        return
    with serve(metrics.registry, port) as address:
        messages.print(f"metrics at {address}", markup=False)
        yield update


def follow_and_exit(
    ctx: click.Context,
    settings: Settings,
    topic: str,
    source: str,
    *,
    timeout: float | None,
    limit: int | None,
    settle: float,
    gaps: bool,
    metrics_port: int | None,
    metrics_file: Path | None,
    as_json: bool,
) -> None:
    with (
        OrderCheck(topic, source, settings, settle_seconds=settle, gaps=gaps) as check,
        order_metrics(topic, metrics_port, metrics_file) as update,
    ):
        report = follow_order(
            check, timeout=timeout, limit=limit, update_metrics=update, as_json=as_json
        )
    show_end(report, as_json)
    ctx.exit(0 if report.passed else 1)


def example(finding: RecordFinding) -> str:
    """A finding as text."""
    text = str(finding.record)
    if finding.parent is not None:
        text += f", made from {finding.parent}"
    if finding.after is not None and finding.parent is not None:
        text += f", comes after one made from {finding.after}"
    elif finding.after is not None:
        text += f" has no output, {finding.after} comes from a later one"
    return text


def _print(violations: list[OrderViolation], as_json: bool) -> None:
    for each in violations:
        if as_json:
            click.echo(json_text(each.as_json()))
        else:
            key = printable(each.key)
            click.echo(f"{each.kind.value}: {example(each.finding)}, key {key}")


def _status(report: OrderReport) -> str:
    counts = [(report.judged, "checked")]
    counts += [(report.violations[kind], kind.plural) for kind in Violation]
    optional = [
        (report.without_lineage, "without lineage"),
        (report.unknown_parents, "with parents that never existed"),
        (report.other_parents, "made from other topics"),
        (report.made_from_ranges, "made from ranges, whose order is not known"),
        (report.without_key, "without a key"),
        (report.waiting, "waiting for the source"),
        (report.forgotten, "source records no longer tracked"),
    ]
    return ", ".join(
        f"{number} {what}" for number, what in counts + [row for row in optional if row[0]]
    )
