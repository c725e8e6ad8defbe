"""`jars fetch|list|path|copy|cds|verify`."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from headwater.cli.app import with_settings
from headwater.cli.output import download_progress, json_option, print_json, print_table
from headwater.jvm.distribution import check_jars, copy_jars, require_ok
from headwater.jvm.jars import ensure_jars, locked_jars, missing_jars, session_jars
from headwater.jvm.versions import CONNECTORS, GROUPS, USER_GROUPS
from headwater.settings import Settings
from headwater.settings.path_option import PathOption

_LOG = logging.getLogger(__name__)

# Names the jar itself, which is in no group.
OWN_JAR = "lineage"

# Shown: those for users. The others are tools of the Java project.
_groups = click.argument(
    "groups",
    nargs=-1,
    type=click.Choice(list(GROUPS)),
    metavar=f"[{'|'.join(USER_GROUPS)}]...",
)


@click.group()
def jars() -> None:
    """Fetch, list and check the pinned jars."""


@jars.command()
@_groups
@with_settings
def fetch(settings: Settings, groups: tuple[str, ...]) -> None:
    """Fetch groups of jars into the cache; by default all that jobs and the broker need."""
    with download_progress() as progress:
        paths = ensure_jars(groups or USER_GROUPS, settings, progress)
    click.echo(f"{len(paths)} jars in {settings.jars_dir}")


@jars.command()
@click.argument(
    "groups",
    nargs=-1,
    type=click.Choice([OWN_JAR, *GROUPS]),
    metavar=f"[{'|'.join((OWN_JAR, *CONNECTORS))}]...",
)
@with_settings
def path(settings: Settings, groups: tuple[str, ...]) -> None:
    """Print the paths of the connectors, separated by commas, for `spark-submit --jars`.

    All connectors by default. Headwater's own jar is always among them; `lineage` prints it alone,
    which is enough for row lineage of a job that has its connectors.
    """
    chosen = [group for group in groups or CONNECTORS if group != OWN_JAR]
    with download_progress() as progress:
        paths = session_jars(chosen, settings, progress)
        click.echo(",".join(map(str, paths)))


@jars.command()
@click.argument("folder", type=PathOption(file_okay=False))
@_groups
@with_settings
def copy(settings: Settings, folder: Path, groups: tuple[str, ...]) -> None:
    """Copy connectors and Headwater's own jar into FOLDER, such as of a container image.

    All connectors by default. Every copy is checked against its checksum.
    """
    with download_progress() as progress:
        paths = copy_jars(groups or CONNECTORS, folder, settings, progress)
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
@json_option
@with_settings
def list_(settings: Settings, groups: tuple[str, ...], as_json: bool) -> None:
    """List the pinned jars with their checksums, and whether they are in the cache."""
    rows = []
    for group in groups or GROUPS:
        missing = missing_jars(group, settings)
        rows += [(jar, jar not in missing) for jar in locked_jars(group)]
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
@json_option
@with_settings
def verify(settings: Settings, groups: tuple[str, ...], as_json: bool) -> None:
    """Compare every cached jar with its pinned checksum, and Headwater's own with its recorded one.

    Exits with 1 if one differs.
    """
    checked = check_jars(groups or GROUPS, settings)
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
