"""`doctor`: is everything there that jobs need?"""

from __future__ import annotations

from dataclasses import asdict

import click

from headwater.cli.frame import json_option, print_json, with_settings
from headwater.services.checkup import check_up
from headwater.settings import Settings


@click.command()
@json_option
@click.pass_context
@with_settings
def doctor(settings: Settings, ctx: click.Context, as_json: bool) -> None:
    """Check Python, Java, Spark, jars, disk, broker and database; exits 1 if one is not well."""
    findings = list(check_up(settings))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = click.style("ok  ", fg="green") if finding.ok else click.style("FAIL", fg="red")
            click.echo(f"{mark}  {finding.name:<10} {finding.text}")
            if not finding.ok and finding.hint:
                click.echo(f"      {'':<10} hint: {finding.hint}")
    ctx.exit(0 if all(finding.ok for finding in findings) else 1)
