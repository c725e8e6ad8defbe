"""Checks jars against their checksums, and copies them, such as into a container image."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import CheckFailedError
from headwater.jvm.compiler import checksum_file
from headwater.jvm.installed import installed_line
from headwater.jvm.jars import (
    ensure_jars,
    locked_jars,
    own_jar,
    own_jar_name,
    own_jar_path,
    sha256_of,
)
from headwater.jvm.versions import SparkLine
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

_OWN = "headwater"
_HINTS = {_OWN: "install the wheel again: pip install --force-reinstall --no-deps headwater"}


@dataclass(frozen=True, slots=True)
class CheckedJar:
    """A jar, and whether it is the expected one.

    Attributes:
        name: the coordinate; `headwater` for its own jar.
        expected: the pinned checksum, or the one recorded when the jar was built.
    """

    path: Path
    name: str
    sha256: str
    expected: str

    @property
    def ok(self) -> bool:
        return self.sha256 == self.expected


def check_jars(
    groups: Iterable[str], settings: Settings, line: SparkLine | None = None
) -> list[CheckedJar]:
    """Compare the jars of `groups` in the cache, and Headwater's own, with their checksums.

    Jars that are not in the cache are not among the results.
    """
    expected = [
        (settings.jars_dir / jar.file_name, jar.coordinate, jar.sha256)
        for group in groups
        for jar in locked_jars(group, settings, line)
    ]
    own = own_jar_path(settings, line)
    if own.is_file():
        expected.append((own, _OWN, _recorded(own)))
    return [
        CheckedJar(path, name, sha256_of(path), sha256)
        for path, name, sha256 in expected
        if path.is_file()
    ]


def require_ok(checked: Iterable[CheckedJar]) -> None:
    """Refuse jars that are not the expected ones.

    Raises:
        CheckFailedError: names the file and both checksums.
    """
    wrong = [jar for jar in checked if not jar.ok]
    if wrong:
        first = wrong[0]
        others = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise CheckFailedError(
            f"{first.path} is not the expected {first.name}: SHA-256 {first.sha256}, "
            f"expected {first.expected or 'none recorded'}{others}",
            hint=_HINTS.get(first.name, "remove the file and run `headwater jars fetch`"),
            files=[str(jar.path) for jar in wrong],
        )


def copy_jars(
    groups: Iterable[str],
    folder: Path,
    settings: Settings,
    progress: Progress = no_progress,
    line: SparkLine | None = None,
) -> list[Path]:
    """Copy the jars of `groups` and Headwater's own into `folder`; fetches those that are missing.

    Every copy is checked. A session whose class path has them needs no other jars.

    Raises:
        CheckFailedError: a jar is not the expected one; it is not copied.
        DownloadError: a jar can't be fetched.
    """
    groups = tuple(groups)
    line = line or installed_line(settings)
    ensure_jars(groups, settings, progress, line)
    own_jar(settings, progress, line)
    folder.mkdir(parents=True, exist_ok=True)
    copies = []
    for jar in check_jars(groups, settings, line):
        require_ok([jar])
        # The same name for every version: a copy replaces the former one.
        name = own_jar_name(line) if jar.name == _OWN else jar.path.name
        unfinished = folder / f".{name}.{os.getpid()}"
        shutil.copyfile(jar.path, unfinished)
        copies.append(unfinished.replace(folder / name))
    return copies


def _recorded(own: Path) -> str:
    """The checksum of Headwater's own jar; empty if none was recorded."""
    file = checksum_file(own)
    words = file.read_text(encoding="utf-8").split() if file.is_file() else []
    return words[0] if words else ""
