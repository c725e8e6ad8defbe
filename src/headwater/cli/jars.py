"""`jars fetch|list|path|copy|cds|verify`."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from headwater.cli.app import with_settings
from headwater.cli.output import download_progress, json_option, print_json, print_table
from headwater.errors import CheckFailedError
from headwater.jvm.distribution import check_jars, copy_jars, require_ok
from headwater.jvm.installed import installed_line, line_named
from headwater.jvm.jars import ensure_jars, locked_jars, missing_jars, session_jars
from headwater.jvm.versions import (
    COMMON_GROUPS,
    CONNECTORS,
    GROUP_NAMES,
    SPARK_LINES,
    SparkLine,
    connectors_of,
    user_groups,
)
from headwater.settings import Settings
from headwater.settings.path_option import PathOption

_LOG = logging.getLogger(__name__)

# Names the jar itself, which is in no group.
OWN_JAR = "lineage"


def _names() -> list[str]:
    return [line.name for line in SPARK_LINES]


def _line(name: str | None, settings: Settings) -> SparkLine:
    return line_named(name) if name else installed_line(settings)


# Shown: those for users. The others are tools of the Java project.
_groups = click.argument(
    "groups",
    nargs=-1,
    type=click.Choice(GROUP_NAMES),
    metavar=f"[{'|'.join((*CONNECTORS, 'broker'))}]...",
)
_spark = click.option(
    "--spark",
    "line",
    type=click.Choice([*{line.version: None for line in SPARK_LINES}, *_names()]),
    metavar="LINE",
    help=f"Of another Spark than the one that is there: {', '.join(_names())}.",
)


@click.group()
def jars() -> None:
    """Fetch, list and check the pinned jars."""


@jars.command()
@_groups
@_spark
@with_settings
def fetch(settings: Settings, groups: tuple[str, ...], line: str | None) -> None:
    """Fetch groups of jars into the cache; by default all that jobs and the broker need."""
    spark = _line(line, settings)
    with download_progress() as progress:
        paths = ensure_jars(groups or user_groups(spark), settings, progress, spark)
    click.echo(f"{len(paths)} jars in {settings.jars_dir}")


@jars.command()
@click.argument(
    "groups",
    nargs=-1,
    type=click.Choice([OWN_JAR, *GROUP_NAMES]),
    metavar=f"[{'|'.join((OWN_JAR, *CONNECTORS))}]...",
)
@_spark
@with_settings
def path(settings: Settings, groups: tuple[str, ...], line: str | None) -> None:
    """Print the paths of the connectors, separated by commas, for `spark-submit --jars`.

    All connectors by default. Headwater's own jar is always among them; `lineage` prints it alone,
    which is enough for row lineage of a job that has its connectors.
    """
    spark = _line(line, settings)
    chosen = [group for group in groups or connectors_of(spark) if group != OWN_JAR]
    with download_progress() as progress:
        paths = session_jars(chosen, settings, progress, spark)
        click.echo(",".join(map(str, paths)))


@jars.command()
@click.argument("folder", type=PathOption(file_okay=False))
@_groups
@_spark
@with_settings
def copy(settings: Settings, folder: Path, groups: tuple[str, ...], line: str | None) -> None:
    """Copy connectors and Headwater's own jar into FOLDER, such as of a container image.

    All connectors by default. Every copy is checked against its checksum.
    """
    spark = _line(line, settings)
    with download_progress() as progress:
        paths = copy_jars(groups or connectors_of(spark), folder, settings, progress, spark)
    click.echo(f"{len(paths)} jars in {folder}")


_again = click.option("--again", is_flag=True, help="Recreate an existing archive.")


@jars.command()
@_again
@with_settings
def cds(settings: Settings, again: bool) -> None:
    """Create a class data sharing (CDS) archive, which halves the startup time of Spark.

    Takes about as long as starting Spark a few times. Run it again after an update of Java or
    Spark; a valid archive is kept.
    """
    _write_cds_archive(settings, again)


@jars.command("archive", hidden=True)
@_again
@with_settings
def archive(settings: Settings, again: bool) -> None:
    """Former name of `jars cds`."""
    _LOG.warning("`headwater jars archive` is deprecated: use `headwater jars cds`")
    _write_cds_archive(settings, again)


def _write_cds_archive(settings: Settings, again: bool) -> None:
    from headwater.spark.cds import write_cds_archive

    path = write_cds_archive(settings, again=again)
    click.echo(f"{path.stat().st_size / 1e6:.0f} MB in {path}")


@jars.command("list")
@_groups
@_spark
@json_option
@with_settings
def list_(settings: Settings, groups: tuple[str, ...], line: str | None, as_json: bool) -> None:
    """List the pinned jars with their checksums, and whether they are in the cache."""
    rows = []
    spark = _line(line, settings)
    for group in groups or _all(spark):
        missing = missing_jars(group, settings, spark)
        rows += [(jar, jar not in missing) for jar in locked_jars(group, settings, spark)]
    if as_json:
        print_json(
            [
                {"group": j.group, "coordinate": j.coordinate, "sha256": j.sha256, "cached": cached}
                for j, cached in rows
            ]
        )
        return
    print_table(
        ("group", "coordinate", "sha256", "cached"),
        [(j.group, j.coordinate, j.sha256[:12], "yes" if cached else "no") for j, cached in rows],
    )


@jars.command()
@_groups
@_spark
@json_option
@with_settings
def verify(settings: Settings, groups: tuple[str, ...], line: str | None, as_json: bool) -> None:
    """Compare every cached jar with its pinned checksum, and Headwater's own with its recorded one.

    Exits with 1 if one differs, or if one of the groups that are named is not in the cache.
    """
    spark = _line(line, settings)
    chosen = groups or _all(spark)
    absent = [
        jar
        for group in chosen
        for jar in locked_jars(group, settings, spark)
        if not (settings.jars_dir / jar.file_name).is_file()
    ]
    if groups and absent:
        raise CheckFailedError(
            f"{len(absent)} jars are not in {settings.jars_dir}, such as {absent[0].coordinate}",
            hint=f"`headwater jars fetch {' '.join(groups)}` fetches them",
        )
    checked = check_jars(chosen, settings, spark)
    if as_json:
        print_json(
            [
                {
                    "file": str(jar.path),
                    "name": jar.name,
                    "sha256": jar.sha256,
                    "expected": jar.expected,
                    "ok": jar.ok,
                }
                for jar in checked
            ]
        )
    require_ok(checked)
    if not as_json:
        click.echo(f"{len(checked)} jars have the expected checksums")
        if absent:
            click.echo(f"{len(absent)} are not in {settings.jars_dir}: jobs fetch them if needed")


def _all(line: SparkLine) -> tuple[str, ...]:
    return (*line.groups, *COMMON_GROUPS)
