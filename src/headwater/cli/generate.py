"""`generate KIND`: writes test data to a topic, or to standard output."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from threading import Event

import click
from rich.progress import Progress

from headwater.cli.app import with_settings
from headwater.cli.output import messages, stopped_by_signals
from headwater.generator import KINDS, VISITS_PER_ROUND, Blemishes, Generated, generate
from headwater.kafka import RecordProducer, describe_topic, ensure_topic
from headwater.settings import Settings

# Small enough to stop at once, large enough that checking the clock costs nothing.
_CHUNK = 500


@click.command("generate")
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.option("--rows", type=click.IntRange(min=1), help="Number of records.  [default: 1000]")
@click.option("--topic", help="Default: the topic of the kind.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same bytes.")
@click.option("--duplicates", default=0.0, metavar="PERCENT", help="Records sent twice.")
@click.option("--missing", default=0.0, metavar="PERCENT", help="Records that lack a field.")
@click.option("--malformed", default=0.0, metavar="PERCENT", help="Records that are not JSON.")
@click.option("--late", default=0.0, metavar="PERCENT", help="Records with an earlier event time.")
@click.option(
    "--late-by", default=3600, show_default=True, metavar="SECONDS", help="How much earlier."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second.")
@click.option("--continuous", is_flag=True, help="Run until Ctrl-C: ten records, then a pause.")
@click.option("--partitions", type=click.IntRange(min=1), help="If the topic is created.")
@click.option("--no-create", is_flag=True, help="Do not create a missing topic.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the values instead of sending.")
@with_settings
def generate_command(
    settings: Settings,
    kind: str,
    rows: int | None,
    topic: str | None,
    seed: int,
    duplicates: float,
    missing: float,
    malformed: float,
    late: float,
    late_by: int,
    rate: float | None,
    continuous: bool,
    partitions: int | None,
    no_create: bool,
    to_stdout: bool,
) -> None:
    """Write visits, ads, clicks or articles, with exact percentages of blemishes."""
    blemishes = Blemishes(
        duplicates=duplicates,
        missing=missing,
        malformed=malformed,
        late=late,
        late_by=timedelta(seconds=late_by),
    )
    count = rows or (None if continuous else 1000)
    records = generate(kind, count, seed=seed, blemishes=blemishes)
    if to_stdout:
        for _, value in records:
            sys.stdout.buffer.write(value + b"\n")
        return
    target = topic or KINDS[kind].topic
    if no_create:
        describe_topic(target, settings.kafka)
    else:
        ensure_topic(target, partitions or KINDS[kind].partitions, settings.kafka)
    pause = _Pace(rate, seed) if rate or continuous else None
    _send(records, target, count, pause, settings)


class _Pace:
    """Keeps the rate or, without one, pauses 1 to 6 s after each round of visits."""

    def __init__(self, rate: float | None, seed: int) -> None:
        self.chunk = VISITS_PER_ROUND if rate is None else max(1, min(_CHUNK, int(rate / 20)))
        self._rate = rate
        self._random = random.Random(seed)  # noqa: S311 - a pause, not a secret
        self._due = time.monotonic()

    def wait(self, stopped: Event) -> None:
        if self._rate is None:
            stopped.wait(1 + 5 * self._random.random())
            return
        # Due times are derived from the rate, not from the last wait: errors must not add up.
        self._due += self.chunk / self._rate
        stopped.wait(max(0.0, self._due - time.monotonic()))


def _send(
    records: Iterator[Generated],
    topic: str,
    count: int | None,
    pace: _Pace | None,
    settings: Settings,
) -> None:
    began = time.monotonic()
    chunk = pace.chunk if pace else _CHUNK
    with (
        stopped_by_signals() as stopped,
        Progress(console=messages, transient=True, disable=not messages.is_terminal) as bar,
        RecordProducer(settings.kafka) as producer,
    ):
        task = bar.add_task(f"sending to {topic}", total=count)
        for number, (key, value) in enumerate(records, start=1):
            producer.send(topic, value, key)
            if number % chunk == 0:
                bar.update(task, completed=number)
                if pace:
                    pace.wait(stopped)
                if stopped.is_set():
                    break
    seconds = time.monotonic() - began
    sent = producer.delivered
    messages.print(f"sent {sent} records to {topic} in {seconds:.1f} s ({sent / seconds:.0f}/s)")
