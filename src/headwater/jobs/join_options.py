"""Options of the shipped jobs that are watermark joins."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from headwater.errors import InputError
from headwater.jobs.options import StreamOptions
from headwater.join import MATCHES, How, JoinRule, JoinSide, parse_span
from headwater.join.explain import explain
from headwater.join.metrics import JoinMetrics
from headwater.join.output import ColumnOf
from headwater.join.watermark_join import STATE_STORES, WatermarkJoin, parse_idle_timeout
from headwater.settings import Settings
from headwater.settings.path_option import PathOption
from headwater.spark.source import with_brokers
from headwater.storage.metrics_export import serve, write_file

_LOG = logging.getLogger(__name__)


def span_option(option: str, default: str | None, text: str) -> click.Option:
    """An option with a duration."""
    return click.Option([option], default=default, show_default=True, metavar="SPAN", help=text)


def matches_option(text: str) -> click.Option:
    return click.Option(
        ["--matches"], type=click.Choice(MATCHES), default="all", show_default=True, help=text
    )


# Options of every join.
JOIN_OPTIONS = (
    span_option(
        "--idle-timeout",
        None,
        "A topic that is idle for this long no longer holds back the watermark.",
    ),
    click.Option(
        ["--state-store"],
        type=click.Choice(list(STATE_STORES)),
        default="rocksdb",
        show_default=True,
    ),
    click.Option(
        ["--state-partitions"],
        type=click.IntRange(1),
        help="Number of state partitions; fixed by the first start. Default: the number of "
        "partitions of the inputs.",
    ),
    click.Option(
        ["--max-state-rows"], type=click.IntRange(1), help="Stop when the state has this many rows."
    ),
    click.Option(
        ["--max-state-mb"], type=click.IntRange(1), help="Stop when the state has this size."
    ),
    click.Option(
        ["--max-records-per-batch"], type=click.IntRange(1), help="Maximum for each topic."
    ),
    click.Option(
        ["--metrics-port"],
        type=click.IntRange(1, 65535),
        help="Serve Prometheus metrics on this port of the loopback interface.",
    ),
    click.Option(
        ["--metrics-file"],
        type=PathOption(dir_okay=False),
        help="Write the metrics to this file at the end.",
    ),
    click.Option(
        ["--explain"],
        is_flag=True,
        help="Explain which records wait for which until when, and exit.",
    ),
)


@dataclass(frozen=True)
class JoinArguments:
    """The join of a job; see `WatermarkJoin`."""

    left: JoinSide
    right: JoinSide
    within: tuple[timedelta, timedelta]
    how: How
    key: ColumnOf | None = None
    value: ColumnOf | None = None


def run_join(settings: Settings, options: StreamOptions, join: JoinArguments) -> None:
    """Run the join with the options of the command line, or explain it."""
    own = options.own
    idle_timeout = _idle_timeout(own["idle_timeout"], options.available_now)
    if own["explain"]:
        rule = JoinRule(join.left, join.right, *join.within, join.how, own["matches"])
        click.echo(explain(rule, options.output_topic, idle_timeout=idle_timeout))
        return
    settings = with_brokers(settings, options.bootstrap_servers)
    named = replace(options, input_topic=f"{join.left.topic}, {join.right.topic}")
    running = WatermarkJoin(
        named.lineage_job(settings),
        join.left,
        join.right,
        options.output_topic,
        within=join.within,
        how=join.how,
        matches=own["matches"],
        key=join.key,
        value=join.value,
        starting_offsets=options.starting_offsets,
        max_records_per_batch=own["max_records_per_batch"],
        idle_timeout=idle_timeout,
        max_state_rows=own["max_state_rows"],
        max_state_bytes=own["max_state_mb"] and own["max_state_mb"] * 1024 * 1024,
        state_store=own["state_store"],
        state_partitions=own["state_partitions"],
    )
    with _exported(running.metrics, own["metrics_port"], own["metrics_file"]):
        running.write(trigger=options.trigger_arguments(), on_failure=options.on_failure)


def within_of(lower: str, upper: str, options: tuple[str, str]) -> tuple[timedelta, timedelta]:
    """The bounds of two options.

    Raises:
        InputError: one is not a duration.
    """
    return parse_span(lower, options[0]), parse_span(upper, options[1])


def _idle_timeout(text: Any, available_now: bool) -> timedelta | None:
    span = parse_idle_timeout(text, "--idle-timeout")
    if span is not None and available_now:
        raise InputError("--idle-timeout can't be used with --available-now")
    return span


@contextmanager
def _exported(metrics: JoinMetrics, port: int | None, file: Path | None) -> Iterator[None]:
    try:
        if port is None:
            yield
        else:
            with serve(metrics.registry, port) as address:
                _LOG.info("metrics at %s", address)
                yield
    finally:
        if file is not None:
            write_file(metrics.registry, file)
