"""Spark's classes, read and checked once and then mapped into each Java that starts.

Half of what the start of a small job costs is Java reading some ten thousand classes. Java can
write them to a file (AppCDS) and map that instead. It takes the file only if it was made by the
same Java from the same jars, and otherwise starts as it always did: nothing depends on it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from headwater.jvm.jars import spark_jars
from headwater.jvm.java import Java
from headwater.settings import Settings

# Java would tell on standard output that an archive does not fit, between a job's own lines.
_QUIET = "-Xlog:cds*=off"
_WRITE = "-XX:ArchiveClassesAtExit="


def archive_path(java: Java, settings: Settings) -> Path:
    """Where the archive for this Java and this Spark is, or would be.

    Named after where both are and after what is there: Java takes an archive only as long as the
    jars have the size and the time that they had, so a Spark installed anew needs another one.
    """
    release = java.home / "release"
    jars = spark_jars()
    made_from = [release.read_text(errors="replace") if release.is_file() else ""]
    for jar in jars:
        found = jar.stat()
        made_from.append(f"{jar.name} {found.st_size} {found.st_mtime_ns}")
    places = [str(java.home), *sorted({str(jar.parent) for jar in jars})]
    name = f"spark-{_digest(places)}-{_digest(made_from)}.jsa"
    return settings.jars_dir.parent / "classes" / name


def outdated(path: Path) -> list[Path]:
    """Archives of the same Java and Spark as they were before an update of one of them."""
    place = path.name.rpartition("-")[0]
    return sorted(other for other in path.parent.glob(f"{place}-*.jsa") if other != path)


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def use_options(java: Java, settings: Settings) -> str:
    """Options of Java's that use the archive; none as long as there is none."""
    path = archive_path(java, settings)
    # Options are parted by spaces. Java writes none while it uses one.
    if not path.is_file() or " " in str(path) or _WRITE in settings.spark.java_options:
        return ""
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}"


def write_options(path: Path) -> str:
    """Options of Java's that write the archive when it ends."""
    return f"{_WRITE}{path} {_QUIET}"
