"""`doctor`: is everything there that jobs need?"""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import click

from headwater.cli.output import json_option, print_json, with_settings
from headwater.service.doctor import Finding, check_up, check_up_spark
from headwater.settings import Settings


@click.command()
@click.option("--spark", is_flag=True, help="Start Spark, too, and see a write's lineage arrive.")
@json_option
@click.pass_context
@with_settings
def doctor(settings: Settings, ctx: click.Context, spark: bool, as_json: bool) -> None:
    """Check what jobs need, from Python to the catalog; exits 1 if something is not well."""
    findings = []
    for finding in chain(check_up(settings), check_up_spark(settings) if spark else ()):
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    ctx.exit(0 if all(finding.ok for finding in findings) else 1)


def _show(finding: Finding) -> None:
    """At once: the next check may take a minute."""
    mark = click.style("ok  ", fg="green") if finding.ok else click.style("FAIL", fg="red")
    click.echo(f"{mark}  {finding.name:<10} {finding.text}")
    if not finding.ok and finding.hint:
        click.echo(f"      {'':<10} hint: {finding.hint}")
