"""Joins visits with the ads that were shown on their page soon after."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import click
from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.jobs.join_options import (
    JOIN_OPTIONS,
    JoinArguments,
    matches_option,
    run_join,
    span_option,
    within_of,
)
from headwater.jobs.options import StreamOptions, stream_options
from headwater.join import JoinSide
from headwater.join.spans import not_negative
from headwater.settings import Settings
from headwater.spark.utc import IN_UTC

_VISIT = {"visit_id": "string", "event_time": "timestamp", "page": "string"}
_AD = {"page": "string", "display_time": "timestamp", "campaign_name": "string"}

_OWN = (
    click.Option(["--visits-topic"], default="visits", show_default=True),
    click.Option(["--ads-topic"], default="ads", show_default=True),
    span_option("--ad-from", "0 seconds", "Earliest ad of a visit, relative to its event time."),
    span_option("--ad-until", "2 minutes", "Latest ad of a visit, relative to its event time."),
    span_option(
        "--visits-watermark", "10 minutes", "How much older than the newest visit a visit may be."
    ),
    span_option("--ads-watermark", "10 minutes", "How much older than the newest ad an ad may be."),
    matches_option(
        "For several ads of a visit: a row for each; only the first one found; or only the "
        "nearest in time, when no more can come."
    ),
    *JOIN_OPTIONS,
)


@stream_options(job_name="visits_ads_enrichment", output_topic="visits-enriched", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Write each visit with the ads of its page within two minutes to `visits-enriched`.

    A visit without an ad is written alone when no more ads can match; late records go to
    `visits-enriched-late`, malformed ones to `visits-enriched-dead-letter`.
    """
    own = options.own
    delays = (
        not_negative(own[name], f"--{name.replace('_', '-')}")
        for name in ("visits_watermark", "ads_watermark")
    )
    visits, ads = sides(own["visits_topic"], own["ads_topic"], *delays)
    within = within_of(own["ad_from"], own["ad_until"], ("--ad-from", "--ad-until"))
    join = JoinArguments(visits, ads, within, "left_outer", key=visit_id, value=enriched_visit)
    run_join(settings, options, join)


_TEN_MINUTES = timedelta(minutes=10)


def sides(
    visits: str,
    ads: str,
    visits_delay: timedelta = _TEN_MINUTES,
    ads_delay: timedelta = _TEN_MINUTES,
) -> tuple[JoinSide, JoinSide]:
    """Both inputs of the join."""
    return (
        JoinSide(visits, _VISIT, "page", "event_time", visits_delay, tuple(_VISIT), name="visits"),
        JoinSide(ads, _AD, "page", "display_time", ads_delay, tuple(_AD), name="ads"),
    )


def visit_id(visit: Mapping[str, Column], _: Mapping[str, Column]) -> Column:
    return visit["visit_id"]


def enriched_visit(visit: Mapping[str, Column], ad: Mapping[str, Column]) -> Column:
    """The visit as JSON, with the fields of its ad, if it has one."""
    fields = F.struct(
        visit["visit_id"].alias("visit_id"),
        visit["event_time"].alias("event_time"),
        visit["page"].alias("visit_page"),
        ad["page"].alias("page"),
        ad["display_time"].alias("display_time"),
        ad["campaign_name"].alias("campaign_name"),
    )
    return F.to_json(fields, IN_UTC)


if __name__ == "__main__":
    main()
