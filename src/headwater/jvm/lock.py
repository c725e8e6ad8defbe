"""The locks: all jars that Headwater fetches, with checksums; a file for each line of Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headwater.errors import InputError, InternalError, NotInstalledError
from headwater.jvm.installed import installed_line
from headwater.jvm.versions import COMMON_GROUPS, GROUP_NAMES, SparkLine
from headwater.settings import Settings

# The lock of what is the same for every Spark.
COMMON = "common"

_HEADING = """\
# Jars that Headwater fetches, with the SHA-256 and the size that each must have.
# Made by `make lock` from headwater/jvm/versions.py: group, coordinate, checksum, bytes.
"""


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


def render_lock(jars: Iterable[LockedJar]) -> str:
    """The text of a lock."""
    rows = (f"{jar.group} {jar.coordinate} {jar.sha256} {jar.size}\n" for jar in jars)
    return _HEADING + "".join(rows)


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
