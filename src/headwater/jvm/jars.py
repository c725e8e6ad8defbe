"""Jars: pinned in the locks, fetched once per user into a cache; Headwater's own jar.

The wheel contains Headwater's jars, one for each line of Spark, and their checksums. In an editable
install the jar of a line is compiled once, from the sources in `java/` of the repository, and
stored in the jar cache; its name contains a digest of the sources.

The locks have the checksums of all jars that Headwater fetches; a file for each line of Spark.

Without a line, functions use that of the Spark that is there.

Class data sharing (CDS): half the startup time of a small job is spent on loading about ten
thousand classes. Java can map them from an archive file, which it uses only if it was written by
the same Java from the same jars; otherwise it loads the classes as usual.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headwater.errors import DownloadError, InputError, InternalError, NotInstalledError
from headwater.jvm.installed import Java, installed_line, installed_spark
from headwater.jvm.ivy import resolve
from headwater.jvm.versions import COMMON_GROUPS, GROUP_NAMES, SparkLine
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# The lock of what is the same for every Spark.
COMMON = "common"


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A pinned jar."""

    group: str
    coordinate: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """Organisation, module and version, so it is unique."""
        organisation, module, version = self.coordinate.split(":")
        return f"{organisation}_{module}-{version}.jar"

    @classmethod
    def of_file(cls, group: str, coordinate: str, path: Path) -> LockedJar:
        return cls(group, coordinate, sha256_of(path), path.stat().st_size)


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def lock_name(name: str) -> str:
    """The file of the lock of a line, or of `COMMON`."""
    return f"{name}.lock"


def read_lock(name: str) -> Mapping[str, tuple[LockedJar, ...]]:
    """The pinned jars by group: of the line of that name, or `COMMON`."""
    file = lock_name(name)
    text = (resources.files("headwater.jvm") / "locks" / file).read_text(encoding="utf-8")
    groups: dict[str, list[LockedJar]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        try:
            group, coordinate, sha256, size = line.split()
            jar = LockedJar(group, coordinate, sha256, int(size))
        except ValueError:
            raise InternalError(
                f"{file}, line {number}: not group, coordinate, checksum, bytes: {line!r}"
            ) from None
        groups.setdefault(group, []).append(jar)
    return {group: tuple(jars) for group, jars in groups.items()}


def locked_jars(
    group: str, settings: Settings, line: SparkLine | None = None
) -> tuple[LockedJar, ...]:
    """The pinned jars of a group, for a line of Spark; by default that of the Spark that is there.

    Raises:
        InputError: there is no such group.
        NotInstalledError: the line does not have this connector; with the reason.
    """
    if group not in GROUP_NAMES:
        raise InputError(f"unknown jar group: {group!r}", hint=f"known: {', '.join(GROUP_NAMES)}")
    if group in COMMON_GROUPS:
        name = COMMON
    else:
        line = line or installed_line(settings)
        if group in line.missing:
            raise NotInstalledError(
                f"the connector {group!r} is missing for Spark {line.version}: "
                f"{line.missing[group]}",
                hint=f"use another version of Spark, or run without {group}",
            )
        name = line.name
    locked = read_lock(name).get(group)
    if not locked:
        raise InternalError(
            f"{lock_name(name)} has no jars for the group {group!r}; run `make lock`"
        )
    return locked


def ensure_jars(
    groups: Iterable[str],
    settings: Settings,
    progress: Progress = no_progress,
    line: SparkLine | None = None,
) -> list[Path]:
    """Paths of all jars of `groups`; fetches those that are not in the cache.

    Raises:
        DownloadError: a jar can't be fetched, or is not the pinned one.
        NotInstalledError: the line does not have one of these connectors.
    """
    paths: list[Path] = []
    for group in groups:
        locked = locked_jars(group, settings, line)
        if missing_jars(group, settings, line):
            _fetch(group, locked, settings, progress)
        paths += [settings.jars_dir / jar.file_name for jar in locked]
    return paths


def session_jars(
    connectors: Iterable[str],
    settings: Settings,
    progress: Progress = no_progress,
    line: SparkLine | None = None,
) -> list[Path]:
    """All jars of a session with these connectors, fetched or compiled on demand."""
    return [*ensure_jars(connectors, settings, progress, line), own_jar(settings, progress, line)]


def own_jar(
    settings: Settings, progress: Progress = no_progress, line: SparkLine | None = None
) -> Path:
    """The path of Headwater's jar; compiles it in an editable install.

    Raises:
        DownloadError: the compiler can't be fetched.
        NotInstalledError: the installation has neither the jar nor its sources; or there is no
            Java to compile them.
    """
    line = line or installed_line(settings)
    jar = own_jar_path(settings, line)
    if not jar.is_file():
        project = _project()
        if project is None:
            raise NotInstalledError(
                f"this installation has no {jar}",
                hint="install the wheel again: pip install --force-reinstall --no-deps headwater",
            )
        from headwater.jvm.compiler import build_jar

        build_jar(project, jar, line, settings, progress)
    return jar


def own_jar_name(line: SparkLine) -> str:
    """The file name of Headwater's jar for a line: the same for every version of Headwater."""
    return f"headwater-spark-{line.name}.jar"


def own_jar_path(settings: Settings, line: SparkLine | None = None) -> Path:
    """Where Headwater's jar is; in an editable install it may not be compiled yet."""
    line = line or installed_line(settings)
    shipped = _package() / "jvm" / "own" / own_jar_name(line)
    project = None if shipped.is_file() else _project()
    if project is None:
        return shipped
    return settings.jars_dir / f"headwater-{line.name}-{project_digest(project, line)}.jar"


def project_digest(project: Path, line: SparkLine) -> str:
    """A digest of all that determines the jar: sources, the compiler's options, pinned jars."""
    digest = hashlib.sha256()
    own = Path(__file__)
    for path in (own.with_name("compiler.py"), own.with_name("locks") / lock_name(line.name)):
        digest.update(path.read_bytes() + b"\0")
    for name, path in source_files(project, line).items():
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def source_files(project: Path, line: SparkLine) -> dict[str, Path]:
    """The sources and resources of a line by their names: `java/dev/headwater/…`.

    A folder `spark-4.0` has the classes that are different from that Spark on: of several with the
    same name, the one of the newest Spark up to that of the line is used.
    """
    sources = project / "src"
    since = sorted(
        (_numbers(folder.name.removeprefix("spark-")), folder) for folder in sources.glob("spark-*")
    )
    folders = [folder for version, folder in since if version <= _numbers(line.version)]
    files = {
        path.relative_to(folder).as_posix(): path
        for folder in (sources / "main", sources / f"scala-{line.scala}", *folders)
        for path in folder.rglob("*")
        if path.is_file()
    }
    return dict(sorted(files.items()))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _project() -> Path | None:
    """The Java project, in an editable install."""
    project = _package().parents[1] / "java"
    return project if (project / "src").is_dir() else None


def _package() -> Path:
    return Path(str(resources.files("headwater")))


def missing_jars(group: str, settings: Settings, line: SparkLine | None = None) -> list[LockedJar]:
    """Jars of the group that are missing or incomplete. Cheap: compares sizes, not contents."""
    folder = settings.jars_dir
    locked = locked_jars(group, settings, line)
    return [jar for jar in locked if _size(folder / jar.file_name) != jar.size]


def corrupt_jars(group: str, settings: Settings, line: SparkLine | None = None) -> list[LockedJar]:
    """Cached jars whose checksum is not the pinned one."""
    folder = settings.jars_dir
    locked = locked_jars(group, settings, line)
    present = [jar for jar in locked if (folder / jar.file_name).is_file()]
    return [jar for jar in present if sha256_of(folder / jar.file_name) != jar.sha256]


def spark_jars(settings: Settings) -> list[Path]:
    """The jars of the Spark that is there.

    Raises:
        NotInstalledError: there is none.
    """
    return installed_spark(settings).jars


def _fetch(
    group: str, locked: tuple[LockedJar, ...], settings: Settings, progress: Progress
) -> None:
    task, folder = f"fetching jars: {group}", settings.jars_dir
    _LOG.info(task)
    progress(task, 0, len(locked))
    with _staging(group, folder) as staging:
        # The lock names every jar, so the resolver chooses nothing.
        fetched = resolve(
            [jar.coordinate for jar in locked],
            Path(staging),
            settings,
            transitive=False,
            progress=lambda done, total: progress(task, done, total),
        )
        for jar in locked:
            _check(jar, fetched.get(jar.coordinate))
        for jar in locked:
            shutil.move(fetched[jar.coordinate], folder / jar.file_name)


def _staging(group: str, folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder next to the jars, so that they can be moved."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder)
    except OSError as error:
        raise DownloadError(
            f"jars of the group {group!r} are missing, and {folder} can't be written: "
            f"{error.strerror}",
            hint=f"in an image, add {group!r} to `headwater jars copy`; elsewhere set "
            "HEADWATER_JVM__JARS_DIR",
        ) from None


def _check(jar: LockedJar, fetched: Path | None) -> None:
    if fetched is None:
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


# Otherwise Java reports an invalid archive on standard output, mixed with the output of the job.
_QUIET = "-Xlog:cds*=off"
_WRITE = "-XX:ArchiveClassesAtExit="


def cds_archive_path(java: Java, settings: Settings) -> Path:
    """The path of the CDS archive for this Java and this Spark; it may not exist.

    The name contains digests of their paths and of their content: Java accepts an archive only if
    the jars have the same sizes and times, so a reinstalled Spark needs a new one.
    """
    release = java.home / "release"
    jars = spark_jars(settings)
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
