"""`doctor`: checks what jobs need."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json
from headwater.service.doctor import CheckResult, run_checks, run_spark_checks
from headwater.settings import Settings


@click.command()
@click.option("--spark", is_flag=True, help="Also check that the lineage of a Spark write arrives.")
@json_option
@click.pass_context
@with_settings
def doctor(settings: Settings, ctx: click.Context, spark: bool, as_json: bool) -> None:
    """Check what jobs need, from Python to the catalog; exits 1 if a check fails."""
    results = []
    for result in chain(run_checks(settings), run_spark_checks(settings) if spark else ()):
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
