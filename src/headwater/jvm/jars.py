"""Jars: pinned in the lock, fetched once per user into a cache; Headwater's own jar.

The wheel contains Headwater's jar and its checksum. In an editable install it is compiled once,
from the sources in `java/` of the repository, and stored in the jar cache; its name contains a
digest of the sources.

Class data sharing (CDS): half the startup time of a small job is spent on loading about ten
thousand classes. Java can map them from an archive file, which it uses only if it was written by
the same Java from the same jars; otherwise it loads the classes as usual.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headwater.errors import (
    DownloadError,
    InputError,
    InternalError,
    NotInstalledError,
    UnsupportedVersionError,
)
from headwater.jvm.ivy import resolve
from headwater.jvm.java import Java
from headwater.jvm.versions import GROUPS, SPARK_VERSIONS, JarGroup
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

JAR_NAME = "headwater-spark.jar"

_HEADING = """\
# Every jar that Headwater fetches, with the SHA-256 and the size that it must have.
# Made by `make lock` from headwater/jvm/versions.py: group, coordinate, checksum, bytes.
"""


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A pinned jar."""

    group: str
    coordinate: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """The file name that Ivy uses: organisation, module and version, so it is unique."""
        organisation, module, version = self.coordinate.split(":")
        return f"{organisation}_{module}-{version}.jar"

    @classmethod
    def of_file(cls, group: str, coordinate: str, path: Path) -> LockedJar:
        return cls(group, coordinate, sha256_of(path), path.stat().st_size)


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_lock() -> Mapping[str, tuple[LockedJar, ...]]:
    """The pinned jars by group."""
    text = (resources.files("headwater.jvm") / "jars.lock").read_text(encoding="utf-8")
    groups: dict[str, list[LockedJar]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        try:
            group, coordinate, sha256, size = line.split()
            jar = LockedJar(group, coordinate, sha256, int(size))
        except ValueError:
            raise InternalError(
                f"jars.lock, line {number}: not group, coordinate, checksum, bytes: {line!r}"
            ) from None
        groups.setdefault(group, []).append(jar)
    return {group: tuple(jars) for group, jars in groups.items()}


def render_lock(jars: Iterable[LockedJar]) -> str:
    """The text of `jars.lock`."""
    rows = (f"{jar.group} {jar.coordinate} {jar.sha256} {jar.size}\n" for jar in jars)
    return _HEADING + "".join(rows)


def ensure_jars(
    groups: Iterable[str], settings: Settings, progress: Progress = no_progress
) -> list[Path]:
    """Paths of all jars of `groups`; fetches those that are not in the cache.

    Raises:
        DownloadError: a jar can't be fetched, or is not the pinned one.
    """
    paths: list[Path] = []
    for group in groups:
        locked = locked_jars(group)
        if missing_jars(group, settings):
            _fetch(group, locked, settings, progress)
        paths += [settings.jars_dir / jar.file_name for jar in locked]
    return paths


def session_jars(
    connectors: Iterable[str], settings: Settings, progress: Progress = no_progress
) -> list[Path]:
    """All jars of a session with these connectors, fetched or compiled on demand."""
    return [*ensure_jars(connectors, settings, progress), own_jar(settings, progress)]


def own_jar(settings: Settings, progress: Progress = no_progress) -> Path:
    """The path of Headwater's jar; compiles it in an editable install.

    Raises:
        DownloadError: the compiler can't be fetched.
        NotInstalledError: the installation has neither the jar nor its sources; or there is no
            Java to compile them.
    """
    jar = own_jar_path(settings)
    if not jar.is_file():
        project = _project()
        if project is None:
            raise NotInstalledError(
                f"this installation has no {jar}",
                hint="install the wheel again: pip install --force-reinstall --no-deps headwater",
            )
        from headwater.jvm.compiler import build_jar

        build_jar(project, jar, settings, progress)
    return jar


def own_jar_path(settings: Settings) -> Path:
    """Where Headwater's jar is; in an editable install it may not be compiled yet."""
    shipped = _package() / "jvm" / JAR_NAME
    project = None if shipped.is_file() else _project()
    if project is None:
        return shipped
    return settings.jars_dir / f"headwater-{project_digest(project)}.jar"


def project_digest(project: Path) -> str:
    """A digest of all that determines the jar: sources, the compiler's options, pinned jars."""
    digest = hashlib.sha256()
    own = Path(__file__)
    for path in (own.with_name("compiler.py"), own.with_name("jars.lock")):
        digest.update(path.read_bytes() + b"\0")
    for path in sorted(each for each in (project / "src" / "main").rglob("*") if each.is_file()):
        name = path.relative_to(project).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _project() -> Path | None:
    """The Java project, in an editable install."""
    project = _package().parents[1] / "java"
    return project if (project / "src").is_dir() else None


def _package() -> Path:
    return Path(str(resources.files("headwater")))


def locked_jars(group: str) -> tuple[LockedJar, ...]:
    """The pinned jars of a group."""
    name = jar_group(group).name
    locked = read_lock().get(name)
    if not locked:
        raise InternalError(f"jars.lock has no jars for the group {name!r}; run `make lock`")
    return locked


def missing_jars(group: str, settings: Settings) -> list[LockedJar]:
    """Jars of the group that are missing or incomplete. Cheap: compares sizes, not contents."""
    folder = settings.jars_dir
    return [jar for jar in locked_jars(group) if _size(folder / jar.file_name) != jar.size]


def corrupt_jars(group: str, settings: Settings) -> list[LockedJar]:
    """Cached jars whose checksum is not the pinned one."""
    folder = settings.jars_dir
    present = [jar for jar in locked_jars(group) if (folder / jar.file_name).is_file()]
    return [jar for jar in present if sha256_of(folder / jar.file_name) != jar.sha256]


def scala_library() -> Path:
    """Spark's Scala library, for the broker: Ivy never returns it."""
    return next(jar for jar in spark_jars() if jar.name.startswith("scala-library-2.13."))


def spark_jars() -> list[Path]:
    """The jars of pyspark.

    Raises:
        NotInstalledError: pyspark is not installed.
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
        # The lock names every jar, so the resolver chooses nothing.
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
    sha256 = sha256_of(fetched)
    if sha256 != jar.sha256:
        raise DownloadError(
            f"{jar.coordinate} is not the pinned jar: SHA-256 {sha256}, pinned {jar.sha256}",
            hint="the mirror may have a modified file; it was not used",
            coordinate=jar.coordinate,
        )


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def jar_group(name: str) -> JarGroup:
    """The group with that name.

    Raises:
        InputError: there is no such group.
    """
    if name not in GROUPS:
        raise InputError(f"unknown jar group: {name!r}", hint=f"known: {', '.join(GROUPS)}")
    return GROUPS[name]


def check_spark_version(version: str) -> None:
    """Refuse a Spark that the pinned connectors were not tested with.

    Raises:
        UnsupportedVersionError: with the supported list.
    """
    if version not in SPARK_VERSIONS:
        supported = ", ".join(SPARK_VERSIONS)
        raise UnsupportedVersionError(
            f"Spark {version} is not supported; supported: {supported}",
            hint=f'install one of them: pip install "pyspark=={SPARK_VERSIONS[0]}"',
            version=version,
            supported=SPARK_VERSIONS,
        )


# Otherwise Java reports an invalid archive on standard output, mixed with the output of the job.
_QUIET = "-Xlog:cds*=off"
_WRITE = "-XX:ArchiveClassesAtExit="


def cds_archive_path(java: Java, settings: Settings) -> Path:
    """The path of the CDS archive for this Java and this Spark; it may not exist.

    The name contains digests of their paths and of their content: Java accepts an archive only if
    the jars have the same sizes and times, so a reinstalled Spark needs a new one.
    """
    release = java.home / "release"
    jars = spark_jars()
    content = [release.read_text(errors="replace") if release.is_file() else ""]
    for jar in jars:
        stat = jar.stat()
        content.append(f"{jar.name} {stat.st_size} {stat.st_mtime_ns}")
    paths = [str(java.home), *sorted({str(jar.parent) for jar in jars})]
    name = f"spark-{_content_digest(paths)}-{_content_digest(content)}.jsa"
    return settings.jars_dir.parent / "classes" / name


def outdated_cds_archives(path: Path) -> list[Path]:
    """Archives for the same paths of Java and Spark, from before an update."""
    prefix = path.name.rpartition("-")[0]
    return sorted(other for other in path.parent.glob(f"{prefix}-*.jsa") if other != path)


def _content_digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def cds_use_options(java: Java, settings: Settings) -> str:
    """Java options that use the archive; empty if there is none."""
    path = cds_archive_path(java, settings)
    # Options are separated by spaces. Java can't write an archive while it uses one.
    if not path.is_file() or " " in str(path) or _WRITE in settings.spark.java_options:
        return ""
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}"


def cds_write_options(path: Path) -> str:
    """Java options that write the archive on exit."""
    return f"{_WRITE}{path} {_QUIET}"
