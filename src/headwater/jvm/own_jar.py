"""Headwater's own Java: what Spark needs inside the JVM, compiled once per machine.

The sources are in the package; the compiler is a pinned jar, so that no JDK has to be installed.
The result lies in the cache beside the jars it was made from, named after their content.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from headwater.errors import InternalError
from headwater.jvm.jars import ensure_jars, spark_jars
from headwater.jvm.java import find_java
from headwater.jvm.versions import SPARK_VERSIONS, jar_group
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

# Java of Headwater's own, each beside the Python that uses it, compiled against a connector's
# jars. The first is part of every session; it needs those of Kafka only where it uses them.
_EVERYWHERE = "kafka"
_FOLDERS = {
    _EVERYWHERE: (
        "spark/writers/java",
        "delivery/java",
        "jobs/visits_ads/java",
        "spark/measures/java",
        "spark/java",
    ),
    "openlineage": ("collector/java",),
}
_LANGUAGE = "17"
_COMPILE_SECONDS = 120
# Zip has no older date; a date that never changes makes the same jar from the same sources.
_DATE = (1980, 1, 1, 0, 0, 0)


def session_jars(
    connectors: Iterable[str], settings: Settings, progress: Progress = no_progress
) -> list[Path]:
    """All jars that a session with these connectors needs, fetched or made if need be."""
    names = tuple(connectors)
    own = [_EVERYWHERE, *(name for name in names if name in _FOLDERS and name != _EVERYWHERE)]
    made = [ensure_own_jar(settings, progress, name) for name in own]
    return [*ensure_jars(names, settings, progress), *made]


def ensure_own_jar(
    settings: Settings, progress: Progress = no_progress, connector: str = _EVERYWHERE
) -> Path:
    """The path of a connector's own jar, compiled if it is not in the cache yet.

    Raises:
        DownloadError: the compiler can't be had.
        MissingPartError: no Java.
    """
    sources = _sources(connector)
    jar = settings.jars_dir / f"headwater-{_digest(sources, connector)}.jar"
    if not jar.is_file():
        (compiler,) = ensure_jars(["compiler"], settings, progress)
        class_path = [*spark_jars(), *ensure_jars([connector], settings, progress)]
        with tempfile.TemporaryDirectory(prefix=".compile-", dir=settings.jars_dir) as folder:
            classes = Path(folder) / "classes"
            _compile(compiler, class_path, sources, classes, settings)
            unfinished = Path(folder) / jar.name
            _pack(classes, unfinished)
            # Two processes may come here at once: both made the same, the last rename stays.
            os.replace(unfinished, jar)
    return jar


def _sources(connector: str) -> list[Path]:
    package = Path(str(resources.files("headwater")))
    folders = _FOLDERS[connector]
    return sorted(file for folder in folders for file in (package / folder).rglob("*.java"))


def _digest(sources: list[Path], connector: str) -> str:
    """Of all that the classes depend on."""
    versions = (*SPARK_VERSIONS, *jar_group(connector).coordinates)
    digest = hashlib.sha256("\0".join(versions).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compile(
    compiler: Path, class_path: list[Path], sources: list[Path], classes: Path, settings: Settings
) -> None:
    command = [str(find_java(settings).binary), "-jar", str(compiler), f"-{_LANGUAGE}", "-nowarn"]
    command += ["-encoding", "UTF-8", "-cp", os.pathsep.join(map(str, class_path))]
    command += ["-d", str(classes), *map(str, sources)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if done.returncode != 0:
        raise InternalError(f"Headwater's Java does not compile:\n{done.stderr.strip()}")


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            name = path.relative_to(classes).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _DATE), path.read_bytes())
