"""Joins two topics by a key, within bounds of time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from headwater.errors import InputError
from headwater.jobs.join_options import (
    JOIN_OPTIONS,
    JoinArguments,
    matches_option,
    run_join,
    span_option,
    within_of,
)
from headwater.jobs.options import StreamOptions, stream_options
from headwater.join import HOW, JoinSide
from headwater.join.spans import not_negative
from headwater.settings import Settings

_TIMESTAMP, _STRING = "timestamp", "string"
# A comma that is not inside of the parentheses of a type, such as decimal(10,2).
_COMMA = re.compile(r",(?![^(]*\))")


def _side_options(side: str, other: str) -> tuple[click.Option, ...]:
    return (
        click.Option([f"--{side}"], required=True, metavar="TOPIC", help=f"The {side} topic."),
        click.Option(
            [f"--{side}-key"],
            required=True,
            metavar="FIELDS",
            help=f"The fields that equal those of --{other}-key, such as `tenant,order_id:bigint`. "
            "A field without a type is a string.",
        ),
        click.Option(
            [f"--{side}-time"], required=True, metavar="FIELD", help="The field with the time."
        ),
        click.Option(
            [f"--{side}-values"],
            default="",
            metavar="FIELDS",
            help="Further fields of the output, such as `amount:double,currency`.",
        ),
        span_option(
            f"--{side}-watermark",
            "10 minutes",
            "How much older than the newest record of the topic a record may be.",
        ),
    )


_OWN = (
    *_side_options("left", "right"),
    *_side_options("right", "left"),
    click.Option(
        ["--within"],
        nargs=2,
        required=True,
        metavar="SPAN SPAN",
        help="Earliest and latest time of the right record, relative to that of the left one, such "
        'as `--within "-10 minutes" "1 hour"`.',
    ),
    click.Option(["--how"], type=click.Choice(HOW), default="inner", show_default=True),
    matches_option(
        "For several matches of a left record (with right_outer: of a right one): a row for each; "
        "only the first one found; or only the nearest in time, when no more can come."
    ),
    *JOIN_OPTIONS,
)


@stream_options(job_name="watermark_join", output_topic="joined", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Join two topics with JSON values, and write the fields of both records.

    Late records go to `OUTPUT-late`, malformed ones to `OUTPUT-dead-letter`. `--job-name` and
    `--checkpoint` distinguish several joins.
    """
    own = options.own
    lower, upper = own["within"]
    within = within_of(lower, upper, ("--within", "--within"))
    join = JoinArguments(_side(own, "left"), _side(own, "right"), within, own["how"])
    run_join(settings, options, join)


def _side(own: Mapping[str, Any], side: str) -> JoinSide:
    key = parse_fields(own[f"{side}_key"], f"--{side}-key")
    time = own[f"{side}_time"]
    values = parse_fields(own[f"{side}_values"], f"--{side}-values")
    twice = [name for name in values if name in key or name == time]
    if twice:
        raise InputError(
            f"--{side}-values: {twice[0]!r} is the key or the time, which are part of the output",
            hint=f"remove it from --{side}-values",
        )
    return JoinSide(
        own[side],
        fields={**key, time: _TIMESTAMP, **values},
        key=tuple(key),
        time=time,
        watermark=not_negative(own[f"{side}_watermark"], f"--{side}-watermark"),
    )


def parse_fields(text: str, option: str) -> dict[str, str]:
    """Fields with their types, of `tenant,order_id:bigint`.

    Raises:
        InputError: names the option and the field.
    """
    fields: dict[str, str] = {}
    for each in _COMMA.split(text) if text.strip() else ():
        name, _, kind = (part.strip() for part in each.partition(":"))
        if not name or name in fields:
            problem = "named twice" if name else "without a name"
            raise InputError(f"{option}: field {each.strip()!r} is {problem}: {text!r}")
        fields[name] = kind or _STRING
    return fields


if __name__ == "__main__":
    main()
