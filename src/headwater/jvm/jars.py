"""The cache of jars: fetched once per user, checked against the lock, shared by all projects."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from headwater.errors import DownloadError, InternalError, NotInstalledError
from headwater.jvm.ivy import resolve
from headwater.jvm.lock import LockedJar, read_lock, sha256_of
from headwater.jvm.versions import jar_group
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)


def ensure_jars(
    groups: Iterable[str], settings: Settings, progress: Progress = no_progress
) -> list[Path]:
    """Paths of all jars of `groups`, fetched if they are not in the cache yet.

    Raises:
        DownloadError: they can't be had, or are not the pinned ones.
    """
    paths: list[Path] = []
    for group in groups:
        locked = locked_jars(group)
        if missing_jars(group, settings):
            _fetch(group, locked, settings, progress)
        paths += [settings.jars_dir / jar.file_name for jar in locked]
    return paths


def locked_jars(group: str) -> tuple[LockedJar, ...]:
    """The pinned jars of a group."""
    name = jar_group(group).name
    locked = read_lock().get(name)
    if not locked:
        raise InternalError(f"jars.lock holds no jars for the group {name!r}; run `make lock`")
    return locked


def missing_jars(group: str, settings: Settings) -> list[LockedJar]:
    """Jars of the group that are absent or cut short. Cheap: it looks at sizes, not contents."""
    folder = settings.jars_dir
    return [jar for jar in locked_jars(group) if _size(folder / jar.file_name) != jar.size]


def corrupt_jars(group: str, settings: Settings) -> list[LockedJar]:
    """Jars in the cache whose content is not the pinned one."""
    folder = settings.jars_dir
    present = [jar for jar in locked_jars(group) if (folder / jar.file_name).is_file()]
    return [jar for jar in present if sha256_of(folder / jar.file_name) != jar.sha256]


def scala_library() -> Path:
    """Spark's own Scala library, for the broker: Ivy never returns that one."""
    return next(jar for jar in spark_jars() if jar.name.startswith("scala-library-2.13."))


def spark_jars() -> list[Path]:
    """The jars that pyspark carries.

    Raises:
        MissingPartError: there is no pyspark.
    """
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise NotInstalledError(
            "jobs and the local broker need pyspark's jars", hint="pip install 'headwater[spark]'"
        )
    return sorted((Path(spark.origin).parent / "jars").glob("*.jar"))


def _fetch(
    group: str, locked: tuple[LockedJar, ...], settings: Settings, progress: Progress
) -> None:
    task, folder = f"fetching jars: {group}", settings.jars_dir
    _LOG.info(task)
    progress(task, 0, len(locked))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as staging:
        # The lock names every jar: nothing is left for the resolver to choose.
        resolve(
            [jar.coordinate for jar in locked],
            Path(staging),
            settings,
            transitive=False,
            progress=lambda done, total: progress(task, done, total),
        )
        fetched = {jar: Path(staging) / "jars" / jar.file_name for jar in locked}
        for jar, path in fetched.items():
            _check(jar, path)
        for jar, path in fetched.items():
            shutil.move(path, folder / jar.file_name)


def _check(jar: LockedJar, fetched: Path) -> None:
    if not fetched.is_file():
        raise DownloadError(f"the resolver returned no {jar.coordinate}")
    found = sha256_of(fetched)
    if found != jar.sha256:
        raise DownloadError(
            f"{jar.coordinate} is not the pinned jar: SHA-256 {found}, pinned {jar.sha256}",
            hint="a mirror may hold a changed file; nothing of it was used",
            coordinate=jar.coordinate,
        )


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
