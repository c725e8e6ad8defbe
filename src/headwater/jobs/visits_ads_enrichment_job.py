"""Joins visits with the ads that were shown on their page soon after."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from headwater.errors import InputError
from headwater.jobs.options import StreamOptions, stream_options
from headwater.jobs.visits_ads import MATCHES, JoinRule, parse_span
from headwater.jobs.visits_ads.metrics import JoinMetrics
from headwater.jobs.visits_ads.rule import explain
from headwater.jobs.visits_ads.run import STATE_STORES, Join, run_join
from headwater.jobs.visits_ads.state import StateLimits
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.settings import Settings
from headwater.spark.source import with_brokers
from headwater.storage.metrics_export import serve, write_file

_LOG = logging.getLogger(__name__)

HEADER_ORDER = (JOB_NAME, JOB_VERSION, BATCH_VERSION)


def _span(option: str, default: str | None, text: str) -> click.Option:
    return click.Option([option], default=default, show_default=True, metavar="SPAN", help=text)


_OWN = (
    click.Option(["--visits-topic"], default="visits", show_default=True),
    click.Option(["--ads-topic"], default="ads", show_default=True),
    _span("--ad-from", "0 seconds", "Earliest ad of a visit, relative to its event time."),
    _span("--ad-until", "2 minutes", "Latest ad of a visit, relative to its event time."),
    _span(
        "--visits-watermark", "10 minutes", "How much older than the newest visit a visit may be."
    ),
    _span("--ads-watermark", "10 minutes", "How much older than the newest ad an ad may be."),
    click.Option(
        ["--matches"],
        type=click.Choice(MATCHES),
        default="all",
        show_default=True,
        help="For several ads of a visit: a row for each; only the first one found; or only the "
        "nearest in time, when no more can come.",
    ),
    _span(
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
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the metrics to this file at the end.",
    ),
    click.Option(
        ["--explain"],
        is_flag=True,
        help="Explain which records wait for which until when, and exit.",
    ),
)


@stream_options(job_name="visits_ads_enrichment", output_topic="visits-enriched", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Write each visit with the ads of its page within two minutes to `visits-enriched`.

    A visit without an ad is written alone when no more ads can match; late records go to
    `visits-enriched-late`, malformed ones to `visits-enriched-dead-letter`.
    """
    own = options.own
    join = _join(options, own)
    if own["explain"]:
        click.echo(explain(join.rule, join.output, idle_timeout=join.idle_timeout))
        return
    settings = with_brokers(settings, options.bootstrap_servers)
    named = replace(options, input_topic=f"{join.rule.visits}, {join.rule.ads}")
    job = named.lineage_job(settings)
    with _metrics(join.output, own["metrics_port"], own["metrics_file"], options) as metrics:
        run_join(join, job, settings, metrics=metrics)


def _join(options: StreamOptions, own: Mapping[str, Any]) -> Join:
    rule = JoinRule(
        visits=own["visits_topic"],
        ads=own["ads_topic"],
        ad_from=parse_span(own["ad_from"], "--ad-from"),
        ad_until=parse_span(own["ad_until"], "--ad-until"),
        visits_delay=parse_span(own["visits_watermark"], "--visits-watermark"),
        ads_delay=parse_span(own["ads_watermark"], "--ads-watermark"),
        matches=own["matches"],
    )
    size = own["max_state_mb"]
    return Join(
        rule,
        options.output_topic,
        options.checkpoint,
        options.trigger_arguments(),
        on_failure=options.on_failure,
        starting_offsets=options.starting_offsets,
        max_records_per_batch=own["max_records_per_batch"],
        idle_timeout=_idle_timeout(own["idle_timeout"], options.available_now),
        limits=StateLimits(own["max_state_rows"], size and size * 1024 * 1024),
        state_store=own["state_store"],
        state_partitions=own["state_partitions"],
    )


def _idle_timeout(text: str | None, available_now: bool) -> timedelta | None:
    if text is None:
        return None
    span = parse_span(text, "--idle-timeout")
    if span <= timedelta():
        raise InputError(f"--idle-timeout must be greater than zero: {text!r}")
    if available_now:
        raise InputError("--idle-timeout can't be used with --available-now")
    return span


@contextmanager
def _metrics(
    output: str, port: int | None, file: Path | None, options: StreamOptions
) -> Iterator[JoinMetrics]:
    metrics = JoinMetrics(output)
    try:
        if port is None:
            yield metrics
        else:
            with serve(metrics.registry, port) as address:
                _LOG.info("metrics at %s", address)
                yield metrics
    finally:
        if file is not None:
            write_file(metrics.registry, file)


if __name__ == "__main__":
    main()
