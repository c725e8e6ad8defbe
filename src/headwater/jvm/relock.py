"""Rewrites `jars.lock` from the table of versions: `python -m headwater.jvm.relock`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headwater.jvm.ivy import resolve
from headwater.jvm.jars import LockedJar, render_lock, scala_library
from headwater.jvm.versions import GROUPS, JarGroup
from headwater.settings import Settings, load

_JAR_NAME = re.compile(r"(?P<module>.+?)-\d[^/]*\.jar")
_RESOLVED = re.compile(r"^[ \t]+([^\s#]+)#([^\s;]+);(\S+) from ", re.MULTILINE)


def relock(settings: Settings) -> str:
    """Resolve all groups with their dependencies; returns the text of the lock."""
    return render_lock(jar for group in GROUPS.values() for jar in _lock(group, settings))


def _lock(group: JarGroup, settings: Settings) -> list[LockedJar]:
    jars = _resolve(group, group.coordinates, settings, transitive=True)
    if group.intransitive:
        jars += _resolve(group, group.intransitive, settings, transitive=False)
    return sorted(jars, key=lambda jar: jar.coordinate)


def _resolve(
    group: JarGroup, coordinates: Sequence[str], settings: Settings, *, transitive: bool
) -> list[LockedJar]:
    excludes = group.excludes if transitive else ()
    with tempfile.TemporaryDirectory() as folder:
        paths = resolve(
            coordinates, Path(folder), settings, transitive=transitive, excludes=excludes
        )
        by_name = {path.name: path for path in paths}
        locked = []
        for match in _RESOLVED.findall((Path(folder) / "ivy.log").read_text()):
            path = by_name.get(LockedJar(group.name, ":".join(match), "", 0).file_name)
            if path is not None and not (group.for_spark and match[1] in _spark_modules()):
                locked.append(LockedJar.of_file(group.name, ":".join(match), path))
    return locked


def _spark_modules() -> set[str]:
    names = (path.name for path in scala_library().parent.glob("*.jar"))
    return {match["module"] for name in names if (match := _JAR_NAME.fullmatch(name))}


if __name__ == "__main__":
    target = Path(__file__).with_name("jars.lock")
    target.write_text(relock(load()), encoding="utf-8")
    sys.stderr.write(f"wrote {target.name}\n")
