"""Options of the shipped streaming jobs."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import click
from pyspark.sql import DataFrame, SparkSession

from headwater import process
from headwater.collector.query import QueryDescription
from headwater.collector.streaming import PreparedQuery, start_query
from headwater.delivery.modes import (
    FORMER_MODE_NAMES,
    MODE_NAMES,
    Individual,
    Mode,
    delivery_mode,
)
from headwater.errors import HeadwaterError, InputError
from headwater.job import LineageJob, OnFailure, TopicOutput
from headwater.model.header import STAMP_HEADERS
from headwater.openlineage.events import Dataset
from headwater.process import job_logging
from headwater.settings import Settings, arm_fault_points
from headwater.spark.query_runner import OnBatch, QueryRun, run_foreach_batch
from headwater.storage.checkpoint import checkpoint_location
from headwater.storage.query_identity import ACCEPTABLE

_LOG = logging.getLogger(__name__)

CHECKPOINT_HELP = "A local folder, or a URI that Spark knows, such as s3a://bucket/folder. "

_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour)s?")


@dataclass(frozen=True)
class BatchQuery:
    """A query whose micro-batches a function writes."""

    lineage: QueryDescription
    rows: DataFrame
    write: Callable[[DataFrame, int], None]
    # Adds counts to the progress of a micro-batch, for writers that Spark can't count.
    counted: Callable[[OnBatch | None], OnBatch | None] = lambda on_batch: on_batch


@dataclass(frozen=True)
class StreamOptions:
    """Inputs, outputs and trigger of a streaming job."""

    job_name: str
    job_version: str
    input_topic: str
    output_topic: str
    bootstrap_servers: str
    checkpoint: Path | str
    # None: that of the checkpoint, or the strongest that is possible.
    delivery: str | None
    on_failure: OnFailure
    pause_seconds: float
    starting_offsets: str
    trigger: str | None
    available_now: bool
    quiet: bool
    accept: frozenset[str]
    # Values of the options that only this job has.
    own: Mapping[str, Any] = field(default_factory=dict)

    def lineage_job(self, settings: Settings) -> LineageJob:
        """Create the job with these options; starts Spark."""
        _LOG.info("%s -> %s, starting Spark", self.input_topic, self.output_topic)
        return LineageJob(
            self.job_name,
            version=self.job_version,
            settings=settings,
            bootstrap_servers=self.bootstrap_servers,
            checkpoint=self.checkpoint,
            delivery=self._mode(),
            accept=sorted(self.accept),
        )

    @property
    def local_checkpoint(self) -> Path:
        """The checkpoint, for jobs that store files next to it."""
        if isinstance(self.checkpoint, Path):
            return self.checkpoint
        raise InputError(f"--checkpoint: this job needs a local folder, got {self.checkpoint!r}")

    def write(
        self, job: LineageJob, records: DataFrame, *, header_order: Sequence[str] = STAMP_HEADERS
    ) -> None:
        """Run the job's query on its output topic until it ends or is stopped."""
        job.start_topic(
            records,
            self.output_topic,
            TopicOutput(header_order=header_order),
            trigger=self.trigger_arguments(),
            on_failure=self.on_failure,
        ).wait()

    def run(
        self,
        spark: SparkSession,
        settings: Settings,
        prepare: Callable[[ExitStack], BatchQuery],
        *,
        run_id: str | None = None,
    ) -> None:
        """Run a query whose micro-batches a function writes, until it ends or is stopped.

        Args:
            prepare: called with the checkpoint held.
        """

        def prepared(resources: ExitStack) -> PreparedQuery:
            query = prepare(resources)

            def execute(run: QueryRun) -> None:
                run_foreach_batch(
                    query.rows,
                    query.write,
                    replace(run, on_batch=query.counted(run.on_batch)),
                    settings,
                    name=self.job_name,
                    checkpoint=self.checkpoint,
                    trigger=self.trigger_arguments(),
                )

            return PreparedQuery(query.lineage, execute)

        start_query(
            self.job_name,
            spark,
            self.checkpoint,
            prepared,
            settings,
            run_id=run_id,
            accept=self.accept,
        ).wait()

    def limits(self) -> dict[str, str | float | bool]:
        """Options of Spark's source for `--allow-gaps` and `--max-records-per-batch`."""
        return {
            "failOnDataLoss": not self.own.get("allow_gaps", False),
            "maxOffsetsPerTrigger": self.own["max_records_per_batch"],
        }

    def lineage_of(self, rows: DataFrame | None, outputs: Sequence[Dataset]) -> QueryDescription:
        """The description of a query that is not run by a `LineageJob`."""
        return QueryDescription(
            self.job_name,
            self.job_version,
            self.checkpoint,
            rows,
            outputs,
            finite=self.available_now,
        )

    def _mode(self) -> Mode | None:
        if self.delivery == Individual.name:
            return Individual(self.pause_seconds)
        if self.pause_seconds:
            given = self.delivery or "none"
            raise InputError(f"--pause requires --delivery individual, got {given}")
        return None if self.delivery is None else delivery_mode(self.delivery)

    def trigger_arguments(self) -> dict[str, Any]:
        """Arguments of `DataStreamWriter.trigger`."""
        if self.available_now:
            return {"availableNow": True}
        return {"processingTime": self.trigger or "0 seconds"}


def stream_options(
    *,
    job_name: str,
    input_topic: str | None = None,
    output_topic: str | None = None,
    trigger: str | None = None,
    delivery: str | None = None,
    own: Sequence[click.Option] = (),
) -> Callable[[Callable[..., None]], click.Command]:
    """Turn a function of (settings, options) into a command with the options of a streaming job.

    `own` are additional options of the job; they replace general ones of the same name.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        def command(settings: Settings | None, **values: Any) -> None:
            settings = settings or _load()
            arm_fault_points(settings)
            options = _options(settings, job_name, values)
            with job_logging(options.job_name, quiet=options.quiet):
                function(settings, options)

        command.__doc__ = function.__doc__
        general = [
            click.Option(
                ["--bootstrap-servers"], help="Default: the setting kafka.bootstrap_servers."
            ),
            click.Option(
                ["--checkpoint"],
                help=f"{CHECKPOINT_HELP}Default: HEADWATER_HOME/checkpoints/{job_name}.",
            ),
            *(_delivery_options(delivery) if output_topic is not None else ()),
            click.Option(["--job-name"], default=job_name, show_default=True),
            click.Option(["--job-version"], help="Default: the setting jobs.version."),
            click.Option(
                ["--starting-offsets"],
                default="earliest",
                show_default=True,
                metavar="earliest|latest|JSON",
                help="Where to start without a checkpoint.",
            ),
            click.Option(
                ["--trigger"],
                default=trigger,
                show_default=trigger is not None,
                help="Interval of micro-batches, such as `5 seconds`.",
            ),
            click.Option(
                ["--available-now"], is_flag=True, help="Process the available records, then stop."
            ),
            click.Option(
                ["--accept"],
                type=click.Choice(list(ACCEPTABLE)),
                multiple=True,
                help="What a start otherwise refuses, for example a recreated topic: "
                "docs/concepts/delivery.md.",
            ),
            click.Option(["--quiet"], is_flag=True, help="Log warnings and errors only."),
        ]
        own_names = {each.name for each in own}
        parameters: list[click.Parameter] = [
            *_topic("--input-topic", input_topic),
            *_topic("--output-topic", output_topic),
            *own,
            *(each for each in general if each.name not in own_names),
        ]
        return JobCommand(
            job_name, callback=_without_settings(command), params=parameters, help=function.__doc__
        )

    return decorate


def _topic(name: str, default: str | None) -> list[click.Option]:
    return [] if default is None else [click.Option([name], default=default, show_default=True)]


def _delivery_options(default: str | None) -> list[click.Option]:
    """Options of jobs that write to Kafka."""
    otherwise = "" if default else " Default: exactly-once, or transactional on a cluster."
    return [
        click.Option(
            ["--delivery"],
            type=click.Choice([*MODE_NAMES, *FORMER_MODE_NAMES]),
            metavar=f"[{'|'.join(MODE_NAMES)}]",
            default=default,
            show_default=default is not None,
            help=f"Delivery mode: docs/concepts/delivery.md.{otherwise}",
        ),
        click.Option(
            ["--on-failure"],
            type=click.Choice(get_args(OnFailure)),
            default="stop",
            show_default=True,
            help="What to do if Kafka rejects a record, such as for its size.",
        ),
        click.Option(
            ["--pause"],
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="SECONDS",
            help="Pause between records of a partition, for `--delivery individual`.",
        ),
    ]


class JobCommand(click.Command):
    """A job as a program: `python -m headwater.jobs.NAME`, or with `spark-submit`."""

    def main(  # type: ignore[override]  # one signature for click's two overloads
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        # As a program; in standalone mode Click ends the process.
        owned = process.owned_process() if standalone_mode else nullcontext()
        try:
            with owned:
                return super().main(args, standalone_mode=standalone_mode, **extra)
        except HeadwaterError as error:
            if not standalone_mode:
                raise
            click.echo(f"error: {error.message}", err=True)
            if error.hint:
                click.echo(f"hint: {error.hint}", err=True)
            sys.exit(error.exit_code)


def _without_settings(command: Callable[..., None]) -> Callable[..., None]:
    return lambda **values: command(click.get_current_context().obj, **values)


def _load() -> Settings:
    from headwater.settings import load

    return load()


def _options(settings: Settings, default_name: str, values: dict[str, Any]) -> StreamOptions:
    job_name = values["job_name"] or default_name
    _check_offsets(values["starting_offsets"])
    _check_trigger(values["trigger"])
    return StreamOptions(
        job_name=job_name,
        job_version=values["job_version"] or settings.jobs.version,
        input_topic=values.get("input_topic", ""),
        output_topic=values.get("output_topic", ""),
        bootstrap_servers=values["bootstrap_servers"] or settings.bootstrap_servers,
        checkpoint=checkpoint_location(default_name, values["checkpoint"], settings),
        delivery=values.get("delivery"),
        on_failure=values.get("on_failure", "stop"),
        pause_seconds=values.get("pause", 0.0),
        starting_offsets=values["starting_offsets"],
        trigger=values["trigger"],
        available_now=values["available_now"],
        quiet=values["quiet"],
        accept=frozenset(values["accept"]),
        own=values,
    )


def _check_offsets(text: str) -> None:
    if text in ("earliest", "latest"):
        return
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InputError(
            f"--starting-offsets must be earliest, latest or JSON, got {text!r}",
            hint='JSON with every partition: {"visits":{"0":23,"1":-2}}, -2 earliest, -1 latest',
        )


def _check_trigger(text: str | None) -> None:
    if text is not None and not _INTERVAL.fullmatch(text):
        raise InputError(f"--trigger must be an interval, got {text!r}", hint="such as `5 seconds`")
