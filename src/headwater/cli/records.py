"""`produce` and `consume`: records by hand."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from headwater.cli.output import messages, with_settings
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import json_text, printable
from headwater.kafka import Position, RecordProducer, describe_topic, ensure_topic, read_topic
from headwater.model import Record
from headwater.settings import Settings


@click.command()
@click.argument("topic")
@click.option("--key-field", help="Take the key from this field, where the line is JSON.")
@click.option(
    "--partitions",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    help="For a topic that is not there yet.",
)
@click.option("--no-create", is_flag=True, help="Do not make a missing topic.")
@with_settings
def produce(
    settings: Settings, topic: str, key_field: str | None, partitions: int, no_create: bool
) -> None:
    """Send each line of standard input as one record, as it stands; empty lines are skipped."""
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
@click.option("--from-beginning", is_flag=True, help="Read what is there, then end.")
@click.option("--follow", is_flag=True, help="With --from-beginning: go on with what arrives.")
@click.option("--max", "limit", type=click.IntRange(min=1), help="End after so many records.")
@click.option("--headers", is_flag=True, help="Print the headers before the value.")
@click.option("--timestamps", is_flag=True, help="Print the time of each record.")
@click.option("--partitions", is_flag=True, help="Print partition and offset.")
@click.option("--json", "as_json", is_flag=True, help="Print everything, one object a line.")
@with_settings
def consume(
    settings: Settings,
    topic: str,
    from_beginning: bool,
    follow: bool,
    limit: int | None,
    headers: bool,
    timestamps: bool,
    partitions: bool,
    as_json: bool,
) -> None:
    """Print the records of a topic.

    Without --from-beginning new records are printed as they arrive, until Ctrl-C. Bytes that
    would move the cursor are escaped, in --json as JSON does it.
    """
    start = Position.EARLIEST if from_beginning else Position.LATEST
    shown = 0
    records = read_topic(topic, settings.kafka, start=start, follow=follow or not from_beginning)
    try:
        for record in records:
            if as_json:
                line = json_text(as_object(record))
            else:
                line = as_line(record, headers, timestamps, partitions)
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
        found = json.loads(value)[field]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    text = found if isinstance(found, str) else json.dumps(found)
    return None if found is None else text.encode()


def as_object(record: Record) -> dict[str, Any]:
    """All of a record, for JSON."""
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


def as_line(record: Record, headers: bool, timestamps: bool, partitions: bool) -> str:
    """The layout of Kafka's console consumer, so that both can be read side by side."""
    parts = []
    if timestamps:
        parts.append(f"CreateTime:{record.timestamp_ms}")
    if partitions:
        parts += [f"Partition:{record.address.partition}", f"Offset:{record.address.offset}"]
    if headers:
        pairs = (f"{printable(k.encode())}:{printable(v)}" for k, v in record.headers)
        parts.append(",".join(pairs) or "NO_HEADERS")
    parts.append(printable(record.value))
    return "\t".join(parts)
