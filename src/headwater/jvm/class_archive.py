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


def archive_path(java: Java, settings: Settings) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    release = java.home / "release"
    build = release.read_text(errors="replace") if release.is_file() else ""
    made_from = [str(java.home), build, *(str(jar) for jar in spark_jars())]
    digest = hashlib.sha256("\n".join(made_from).encode()).hexdigest()[:12]
    return settings.jars_dir.parent / "classes" / f"spark-{digest}.jsa"


def use_options(java: Java, settings: Settings) -> str:
    """Options of Java's that use the archive; none as long as there is none."""
    path = archive_path(java, settings)
    # Options are parted by spaces.
    if not path.is_file() or " " in str(path):
        return ""
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}"


def write_options(path: Path) -> str:
    """Options of Java's that write the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
