"""Writes the locks again from the table of versions: `python -m headwater.jvm.relock [LINE]...`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwater.jvm.ivy import resolve
from headwater.jvm.jars import COMMON, LockedJar, lock_name
from headwater.jvm.versions import COMMON_GROUPS, SPARK_LINES, JarGroup
from headwater.settings import Settings, load

LOCKS = Path(__file__).with_name("locks")

_HEADING = """\
# Jars that Headwater fetches, with the SHA-256 and the size that each must have.
# Made by `make lock` from headwater/jvm/versions.py: group, coordinate, checksum, bytes.
"""


def relock(groups: Iterable[JarGroup], cache: Path, settings: Settings) -> str:
    """Resolve groups with their dependencies; returns the text of a lock."""
    return render_lock(jar for group in groups for jar in _lock(group, cache, settings))


def _lock(group: JarGroup, cache: Path, settings: Settings) -> list[LockedJar]:
    found: dict[str, Path] = {}
    if group.coordinates:
        found |= resolve(
            group.coordinates, cache, settings, transitive=True, excludes=group.excludes
        )
    if group.intransitive:
        found |= resolve(group.intransitive, cache, settings, transitive=False)
    return [LockedJar.of_file(group.name, name, path) for name, path in sorted(found.items())]


def render_lock(jars: Iterable[LockedJar]) -> str:
    """The text of a lock."""
    rows = (f"{jar.group} {jar.coordinate} {jar.sha256} {jar.size}\n" for jar in jars)
    return _HEADING + "".join(rows)


def main(names: Sequence[str]) -> None:
    groups = {COMMON: COMMON_GROUPS} | {line.name: line.groups for line in SPARK_LINES}
    with tempfile.TemporaryDirectory() as cache:
        for name in names or groups:
            text = relock(groups[name].values(), Path(cache), load())
            (LOCKS / lock_name(name)).write_text(text, encoding="utf-8")
            sys.stderr.write(f"wrote {lock_name(name)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
