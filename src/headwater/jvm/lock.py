"""The list of all jars with their checksums, kept in the package as `jars.lock`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headwater.errors import InternalError

_HEADING = """\
# Every jar that Headwater fetches, with the SHA-256 and the size that it must have.
# Made by `make lock` from headwater/jvm/versions.py: group, coordinate, checksum, bytes.
"""


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One pinned jar."""

    group: str
    coordinate: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """The name that Ivy gives it: unique, as it holds organisation, module and version."""
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
