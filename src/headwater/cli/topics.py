"""`topics list|create|describe`."""

from __future__ import annotations

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json, print_table
from headwater.errors import InputError
from headwater.kafka import create_topic, describe_topic, list_topics, partition_states
from headwater.settings import Settings


@click.group()
def topics() -> None:
    """List, create and describe topics."""


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also show Kafka's internal topics.")
@json_option
@with_settings
def list_(settings: Settings, internal: bool, as_json: bool) -> None:
    """List all topics with their number of partitions."""
    found = list_topics(settings.kafka, internal=internal)
    if as_json:
        print_json([{"topic": t.name, "partitions": t.partitions} for t in found])
    else:
        print_table(("topic", "partitions"), [(t.name, t.partitions) for t in found])


@topics.command()
@click.argument("name")
@click.option("--partitions", default=2, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Default: the setting kafka.replication_factor, which is the broker's default.",
)
@click.option("--config", "pairs", multiple=True, metavar="KEY=VALUE", help="A topic setting.")
@with_settings
def create(
    settings: Settings,
    name: str,
    partitions: int,
    replication_factor: int | None,
    pairs: tuple[str, ...],
) -> None:
    """Create a topic."""
    config = dict(_pair(pair) for pair in pairs)
    create_topic(
        name, partitions, settings.kafka, replication_factor=replication_factor, config=config
    )
    click.echo(f"created {name} with {partitions} partitions")


@topics.command()
@click.argument("name")
@json_option
@with_settings
def describe(settings: Settings, name: str, as_json: bool) -> None:
    """Show a topic's partitions: first offset, end offset, records."""
    describe_topic(name, settings.kafka)
    states = partition_states(name, settings.kafka)
    if as_json:
        rows = [
            {"partition": s.partition, "first": s.first, "end": s.end, "records": s.records}
            for s in states
        ]
        print_json({"topic": name, "partitions": rows})
    else:
        print_table(
            ("partition", "first", "end", "records"),
            [(s.partition, s.first, s.end, s.records) for s in states],
        )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--config expects KEY=VALUE, got {text!r}")
    return key, value
