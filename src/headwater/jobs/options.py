"""The options that every shipped job takes, and how its query is started."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import click
from pyspark.sql import DataFrame

from headwater.collector.query import QueryDescription
from headwater.delivery.modes import Individual, Mode
from headwater.delivery.registry import DEFAULT_MODE, MODE_NAMES, delivery_mode
from headwater.errors import HeadwaterError, InputError
from headwater.job import LineageJob, OnFailure
from headwater.logs import job_logging
from headwater.openlineage.events import Dataset
from headwater.settings import Settings, fault_points

_LOG = logging.getLogger(__name__)

_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour)s?")


@dataclass(frozen=True)
class StreamOptions:
    """Where a streaming job reads and writes, and how it is triggered."""

    job_name: str
    job_version: str
    input_topic: str
    output_topic: str
    bootstrap_servers: str
    checkpoint: Path | str
    delivery: str
    on_failure: OnFailure
    pause_seconds: float
    starting_offsets: str
    trigger: str | None
    available_now: bool
    quiet: bool
    # What only this job takes, by the names of its own options.
    own: Mapping[str, Any] = field(default_factory=dict)

    def lineage_job(self, settings: Settings, *, header_order: Sequence[str]) -> LineageJob:
        """The job with these options; starts Spark."""
        _LOG.info("%s -> %s, starting Spark", self.input_topic, self.output_topic)
        return LineageJob(
            self.job_name,
            version=self.job_version,
            settings=settings,
            bootstrap_servers=self.bootstrap_servers,
            checkpoint=self.checkpoint,
            delivery=self._mode(),
            header_order=header_order,
        )

    @property
    def local_checkpoint(self) -> Path:
        """For jobs that keep notes of their own beside it."""
        if isinstance(self.checkpoint, Path):
            return self.checkpoint
        raise InputError(f"--checkpoint: this job needs a local folder, not {self.checkpoint!r}")

    def write(self, job: LineageJob, records: DataFrame) -> None:
        """Run the job's query on its output topic until it ends or is stopped."""
        job.write(
            records,
            self.output_topic,
            trigger=self.trigger_arguments(),
            on_failure=self.on_failure,
        )

    def lineage_of(self, rows: DataFrame | None, outputs: Sequence[Dataset]) -> QueryDescription:
        """The lineage of a query that is not run by a `LineageJob`."""
        return QueryDescription(
            self.job_name,
            self.job_version,
            self.checkpoint,
            rows,
            outputs,
            finite=self.available_now,
        )

    def _mode(self) -> Mode:
        if self.delivery == Individual.name:
            return Individual(self.pause_seconds)
        if self.pause_seconds:
            raise InputError(f"--pause goes with --delivery individual, not with {self.delivery}")
        return delivery_mode(self.delivery)

    def trigger_arguments(self) -> dict[str, Any]:
        """For `DataStreamWriter.trigger`; without arguments Spark starts batch after batch."""
        if self.available_now:
            return {"availableNow": True}
        return {"processingTime": self.trigger or "0 seconds"}


def stream_options(
    *,
    job_name: str,
    input_topic: str | None = None,
    output_topic: str | None = None,
    trigger: str | None = None,
    delivery: str = DEFAULT_MODE,
    own: Sequence[click.Option] = (),
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function of (settings, options) a command with the options of a streaming job.

    A job that reads or writes something else than one topic has `own` options for it.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        def command(settings: Settings | None, **given: Any) -> None:
            settings = settings or _load()
            fault_points.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")
            options = _options(settings, job_name, given)
            with job_logging(options.job_name, quiet=options.quiet):
                function(settings, options)

        command.__doc__ = function.__doc__
        parameters: list[click.Parameter] = [
            *_topic("--input-topic", input_topic),
            *_topic("--output-topic", output_topic),
            *own,
            click.Option(["--bootstrap-servers"], help="Default: the setting."),
            click.Option(
                ["--checkpoint"],
                help="A local folder, or a URI that Spark knows, such as s3a://bucket/folder. "
                f"Default: HEADWATER_HOME/checkpoints/{job_name}.",
            ),
            *(_delivery_options(delivery) if output_topic is not None else ()),
            click.Option(["--job-name"], default=job_name, show_default=True),
            click.Option(["--job-version"], help="Default: the setting jobs.version."),
            click.Option(
                ["--starting-offsets"],
                default="earliest",
                show_default=True,
                metavar="earliest|latest|JSON",
                help="Where a job without a checkpoint begins.",
            ),
            click.Option(
                ["--trigger"],
                default=trigger,
                show_default=trigger is not None,
                help="An interval: `5 seconds`.",
            ),
            click.Option(
                ["--available-now"], is_flag=True, help="Process what is there, then end."
            ),
            click.Option(["--quiet"], is_flag=True, help="Say nothing but errors."),
        ]
        return JobCommand(
            job_name, callback=_without_settings(command), params=parameters, help=function.__doc__
        )

    return decorate


def _topic(name: str, default: str | None) -> list[click.Option]:
    return [] if default is None else [click.Option([name], default=default, show_default=True)]


def _delivery_options(default: str) -> list[click.Option]:
    """Of jobs that write to Kafka."""
    return [
        click.Option(
            ["--delivery"],
            type=click.Choice(MODE_NAMES),
            default=default,
            show_default=True,
            help="How records are handed to Kafka: docs/concepts/delivery.md.",
        ),
        click.Option(
            ["--on-failure"],
            type=click.Choice(get_args(OnFailure)),
            default="stop",
            show_default=True,
            help="What to do when Kafka refuses a record for what it is, such as its size.",
        ),
        click.Option(
            ["--pause"],
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="SECONDS",
            help="Between two records of a partition; for `--delivery individual`.",
        ),
    ]


class JobCommand(click.Command):
    """A job as a command of its own: `python -m headwater.jobs.NAME`, or under `spark-submit`."""

    def main(  # type: ignore[override]  # one signature for click's two overloads
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        try:
            return super().main(args, standalone_mode=standalone_mode, **extra)
        except HeadwaterError as error:
            if not standalone_mode:
                raise
            click.echo(f"error: {error.message}", err=True)
            if error.hint:
                click.echo(f"hint: {error.hint}", err=True)
            sys.exit(error.exit_code)


def _without_settings(command: Callable[..., None]) -> Callable[..., None]:
    return lambda **given: command(click.get_current_context().obj, **given)


def _load() -> Settings:
    from headwater.settings import load

    return load()


def _options(settings: Settings, default_name: str, given: dict[str, Any]) -> StreamOptions:
    job_name = given["job_name"] or default_name
    _check_offsets(given["starting_offsets"])
    _check_trigger(given["trigger"])
    return StreamOptions(
        job_name=job_name,
        job_version=given["job_version"] or settings.jobs.version,
        input_topic=given.get("input_topic", ""),
        output_topic=given.get("output_topic", ""),
        bootstrap_servers=given["bootstrap_servers"] or settings.bootstrap_servers,
        checkpoint=_checkpoint(settings, default_name, given["checkpoint"]),
        delivery=given.get("delivery", DEFAULT_MODE),
        on_failure=given.get("on_failure", "stop"),
        pause_seconds=given.get("pause", 0.0),
        starting_offsets=given["starting_offsets"],
        trigger=given["trigger"],
        available_now=given["available_now"],
        quiet=given["quiet"],
        own=given,
    )


def _checkpoint(settings: Settings, default_name: str, given: str | None) -> Path | str:
    if given is not None and "://" in given and not given.startswith("file://"):
        return given
    folder = (given or "").removeprefix("file://")
    return Path(folder or settings.home_dir / "checkpoints" / default_name).absolute()


def _check_offsets(text: str) -> None:
    if text in ("earliest", "latest"):
        return
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InputError(
            f"--starting-offsets: neither earliest, latest nor JSON: {text!r}",
            hint='JSON names every partition: {"visits":{"0":23,"1":-2}}, -2 earliest, -1 latest',
        )


def _check_trigger(text: str | None) -> None:
    if text is not None and not _INTERVAL.fullmatch(text):
        raise InputError(f"--trigger: not an interval: {text!r}", hint="such as `5 seconds`")
