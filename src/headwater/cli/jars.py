"""`jars fetch|list|path|verify|archive`."""

from __future__ import annotations

import click

from headwater.cli.output import (
    download_progress,
    json_option,
    print_json,
    print_table,
    with_settings,
)
from headwater.errors import CheckFailedError
from headwater.jvm.jars import corrupt_jars, ensure_jars, locked_jars, missing_jars
from headwater.jvm.own_jar import session_jars
from headwater.jvm.versions import CONNECTORS, GROUPS
from headwater.settings import Settings

_groups = click.argument("groups", nargs=-1, type=click.Choice(list(GROUPS)))


@click.group()
def jars() -> None:
    """Fetch, list and check the pinned jars."""


@jars.command()
@_groups
@with_settings
def fetch(settings: Settings, groups: tuple[str, ...]) -> None:
    """Fetch groups of jars (all, without names) into the cache."""
    with download_progress() as progress:
        paths = ensure_jars(groups or GROUPS, settings, progress)
    click.echo(f"{len(paths)} jars in {settings.jars_dir}")


@jars.command()
@_groups
@with_settings
def path(settings: Settings, groups: tuple[str, ...]) -> None:
    """Print the connectors' paths, separated by commas: `spark-submit --jars "$(…)"`."""
    with download_progress() as progress:
        found = session_jars(groups or CONNECTORS, settings, progress)
        click.echo(",".join(str(jar) for jar in found))


@jars.command()
@click.option("--again", is_flag=True, help="Make it anew where there is one.")
@with_settings
def archive(settings: Settings, again: bool) -> None:
    """Keep Spark's classes in a form that halves what each start of Spark costs.

    Takes as long as some starts. To be done again after an update of Java or Spark; where there
    is one that fits, nothing is done.
    """
    from headwater.spark.cds import make_class_archive

    path = make_class_archive(settings, again=again)
    click.echo(f"{path.stat().st_size / 1e6:.0f} MB in {path}")


@jars.command("list")
@_groups
@json_option
@with_settings
def list_(settings: Settings, groups: tuple[str, ...], as_json: bool) -> None:
    """Every pinned jar with its checksum, and whether it is in the cache."""
    rows = []
    for group in groups or GROUPS:
        missing = missing_jars(group, settings)
        rows += [(jar, jar not in missing) for jar in locked_jars(group)]
    if as_json:
        print_json(
            [
                {"group": j.group, "coordinate": j.coordinate, "sha256": j.sha256, "cached": there}
                for j, there in rows
            ]
        )
        return
    print_table(
        ("group", "coordinate", "sha256", "cached"),
        [(j.group, j.coordinate, j.sha256[:12], "yes" if there else "no") for j, there in rows],
    )


@jars.command()
@_groups
@with_settings
def verify(settings: Settings, groups: tuple[str, ...]) -> None:
    """Read every cached jar and compare its checksum with the pinned one."""
    wrong = [jar for group in groups or GROUPS for jar in corrupt_jars(group, settings)]
    if wrong:
        raise CheckFailedError(
            f"{len(wrong)} jars are not the pinned ones, {wrong[0].coordinate} first",
            hint=f"remove them from {settings.jars_dir} and run `headwater jars fetch`",
        )
    click.echo("all cached jars are the pinned ones")
