"""`doctor`: checks what jobs need."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json
from headwater.errors import InputError
from headwater.service.check_result import CheckResult
from headwater.service.doctor import run_checks, run_spark_checks
from headwater.service.kafka_checks import run_kafka_checks
from headwater.settings import Settings


@click.command()
@click.option("--spark", is_flag=True, help="Also check that the lineage of a Spark write arrives.")
@click.option(
    "--kafka",
    is_flag=True,
    help="Instead: check the connection to Kafka and, with --job, the topics of a job.",
)
@click.option(
    "--job",
    metavar="NAME",
    help="With --kafka: check the permissions, replicas and retention of this job's topics.",
)
@json_option
@click.pass_context
@with_settings
def doctor(
    settings: Settings,
    ctx: click.Context,
    spark: bool,
    kafka: bool,
    job: str | None,
    as_json: bool,
) -> None:
    """Check what jobs need, from Python to the catalog; exits 1 if a check fails."""
    if job is not None and not kafka:
        raise InputError("--job is an option of --kafka")
    results = []
    checks = run_kafka_checks(settings, job) if kafka else run_checks(settings)
    for result in chain(checks, run_spark_checks(settings) if spark else ()):
        results.append(result)
        if not as_json:
            _show(result)
    if as_json:
        print_json([asdict(result) for result in results])
    ctx.exit(0 if all(result.ok for result in results) else 1)


def _show(result: CheckResult) -> None:
    """Print a result immediately: the next check may take a minute."""
    mark = click.style("ok  ", fg="green") if result.ok else click.style("FAIL", fg="red")
    click.echo(f"{mark}  {result.name:<10} {result.text}")
    if not result.ok and result.hint:
        click.echo(f"      {'':<10} hint: {result.hint}")
