"""`produce` and `consume`: write and read single records."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headwater.cli.app import with_settings
from headwater.cli.options import RenamedOption
from headwater.cli.output import messages
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import json_text, printable
from headwater.kafka import Position, RecordProducer, describe_topic, ensure_topic, read_topic
from headwater.model import Record
from headwater.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


def record_options(command: Command) -> Command:
    """The options of a command that prints records: which part of them, and how."""
    options = [
        click.option(
            "--limit",
            cls=RenamedOption,
            former=["--max"],
            type=click.IntRange(min=1),
            help="Maximum number of records.",
        ),
        click.option("--headers", is_flag=True, help="Print the headers before the value."),
        click.option("--timestamps", is_flag=True, help="Print the timestamp of each record."),
        click.option(
            "--show-address",
            cls=RenamedOption,
            former=["--partitions"],
            is_flag=True,
            help="Print partition and offset.",
        ),
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["text", "json", "table"]),
            default="text",
            show_default=True,
            help="Lines, complete records as one JSON object per line, or a table.",
        ),
        click.option(
            "--json", "output_format", flag_value="json", help="The same as --format json."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("topic")
@click.option("--key-field", help="Use this field as the key, if the line is a JSON object.")
@click.option(
    "--partitions",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of partitions if the topic is created.",
)
@click.option("--no-create", is_flag=True, help="Do not create a missing topic.")
@with_settings
def produce(
    settings: Settings, topic: str, key_field: str | None, partitions: int, no_create: bool
) -> None:
    """Send each line of standard input as one record; empty lines are skipped."""
    if no_create:
        describe_topic(topic, settings.kafka)
    else:
        ensure_topic(topic, partitions, settings.kafka)
    with RecordProducer(settings.kafka) as producer:
        for line in sys.stdin.buffer:
            value = line.rstrip(b"\r\n")
            if value:
                producer.send(topic, value, _key(value, key_field))
    messages.print(f"sent {producer.delivered} records to {topic}", markup=False)


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Print existing records, then exit.")
@click.option("--follow", is_flag=True, help="With --from-beginning: continue with new records.")
@record_options
@with_settings
def consume(
    settings: Settings,
    topic: str,
    from_beginning: bool,
    follow: bool,
    limit: int | None,
    headers: bool,
    timestamps: bool,
    show_address: bool,
    output_format: str,
) -> None:
    """Print the records of a topic.

    Without --from-beginning, prints new records as they arrive, until Ctrl-C. With --format
    table, prints existing records by partition and offset, at most 1000 unless --limit is set.
    Control characters are escaped.
    """
    if output_format == "table":
        from headwater.cli.show import MAX_ROWS, print_topic_table

        if follow:
            raise click.UsageError("--format table can't be used with --follow")
        print_topic_table(topic, settings, limit or MAX_ROWS)
        return
    start = Position.EARLIEST if from_beginning else Position.LATEST
    shown = 0
    records = read_topic(topic, settings.kafka, start=start, follow=follow or not from_beginning)
    try:
        for record in records:
            if output_format == "json":
                line = json_text(as_object(record))
            else:
                line = as_line(record, headers, timestamps, show_address)
            click.echo(line)
            shown += 1
            if shown == limit:
                break
    except KeyboardInterrupt:
        pass
    finally:
        records.close()


def _key(value: bytes, field: str | None) -> bytes | None:
    if field is None:
        return None
    try:
        key = json.loads(value)[field]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    text = key if isinstance(key, str) else json.dumps(key)
    return None if key is None else text.encode()


def as_object(record: Record) -> dict[str, Any]:
    """A complete record, for JSON."""
    address = record.address
    return {
        "topic": address.topic,
        "partition": address.partition,
        "offset": address.offset,
        "timestamp": record.timestamp_ms,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }


def as_line(record: Record, headers: bool, timestamps: bool, show_address: bool) -> str:
    """A record in the layout of Kafka's console consumer."""
    parts = []
    if timestamps:
        parts.append(f"CreateTime:{record.timestamp_ms}")
    if show_address:
        parts += [f"Partition:{record.address.partition}", f"Offset:{record.address.offset}"]
    if headers:
        pairs = (f"{printable(k.encode())}:{printable(v)}" for k, v in record.headers)
        parts.append(",".join(pairs) or "NO_HEADERS")
    parts.append(printable(record.value))
    return "\t".join(parts)
