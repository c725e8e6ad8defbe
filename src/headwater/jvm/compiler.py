"""Compiles the Java project (`java/` of the repository) into one jar for each line of Spark.

The compiler and the jars that the sources are compiled with are pinned, so that neither a JDK nor
that Spark has to be installed. The same sources always give the same bytes: entries are sorted, not
compressed (the wheel is), and have a constant date.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from headwater.errors import InternalError
from headwater.jvm.installed import find_java
from headwater.jvm.jars import ensure_jars, sha256_of, source_files
from headwater.jvm.versions import SPARK, SparkLine
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

# What the sources use.
_CLASS_PATH = (SPARK, "kafka", "openlineage")
_SOURCES, _RESOURCES = "java/", "resources/"
# The oldest Java that Spark runs on.
_LANGUAGE = "17"
# Warnings are errors, except those about style, and those that Scala's classes cause: they do not
# declare what they throw, and who closes an object is not known.
_WARNINGS = (
    "-failOnWarning",
    "-warn:+all",
    "-warn:-all-static-method,static-method,boxing,emptyBlock,nls,paramAssign,super",
    "-warn:-syntheticAccess,unqualifiedField,resource,unusedExceptionParam,unusedThrown",
)
_COMPILE_SECONDS = 120
# The oldest date in zip, and the code of its Unix entries.
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def build_jar(
    project: Path,
    jar: Path,
    line: SparkLine,
    settings: Settings,
    progress: Progress = no_progress,
) -> None:
    """Compile the project into `jar`, next to which a file `.sha256` has its checksum.

    Raises:
        DownloadError: the compiler, Spark's jars or a connector can't be fetched.
        NotInstalledError: there is no Java.
    """
    files = source_files(project, line)
    sources = [path for name, path in files.items() if name.startswith(_SOURCES)]
    others = ensure_jars(_CLASS_PATH, settings, progress, line)
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=jar.parent) as folder:
        classes = Path(folder) / "classes"
        compile_java(sources, others, classes, settings, progress)
        for name, path in files.items():
            if name.startswith(_RESOURCES):
                target = classes / name.removeprefix(_RESOURCES)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        unfinished = Path(folder) / jar.name
        _pack(classes, unfinished)
        checksum = Path(folder) / "checksum"
        checksum.write_text(f"{sha256_of(unfinished)}  {jar.name}\n")
        # Two processes may do this at once: both jars are the same, and the last rename wins.
        os.replace(checksum, checksum_file(jar))
        os.replace(unfinished, jar)


def checksum_file(jar: Path) -> Path:
    """The file with the checksum of a jar, in the format of `sha256sum`."""
    return jar.with_name(f"{jar.name}.sha256")


def compile_java(
    sources: Sequence[Path],
    class_path: Sequence[Path],
    classes: Path,
    settings: Settings,
    progress: Progress = no_progress,
) -> None:
    """Compile `sources` into the folder `classes`.

    Raises:
        DownloadError: the compiler can't be fetched.
        NotInstalledError: there is no Java.
        InternalError: an error or a warning of the compiler.
    """
    (compiler,) = ensure_jars(["compiler"], settings, progress)
    command = [str(find_java(settings).binary), "-jar", str(compiler), *_options()]
    command += ["-cp", os.pathsep.join(map(str, class_path)), "-d", str(classes)]
    done = subprocess.run(
        [*command, *map(str, sources)],
        capture_output=True,
        text=True,
        timeout=_COMPILE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise InternalError(f"Headwater's Java does not compile:\n{done.stderr.strip()}")


def _options() -> tuple[str, ...]:
    return (f"-{_LANGUAGE}", "-proc:none", "-encoding", "UTF-8", *_WARNINGS)


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w") as archive:
        for path in sorted(each for each in classes.rglob("*") if each.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), _DATE)
            entry.create_system, entry.external_attr = _UNIX, 0o644 << 16
            archive.writestr(entry, path.read_bytes())
