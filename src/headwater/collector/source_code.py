"""Where the code of a job lies, and in which version."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def main_script() -> Path | None:
    """The file that Python was started with."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file) if file else None


def told_path(script: Path) -> str:
    """Relative to the folder one stands in, if it is below it: the same on every machine."""
    path = script.absolute()
    folder = Path.cwd()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def commit_of(script: Path) -> str | None:
    """The commit of the working tree that holds the file; None without one."""
    for folder in script.absolute().parents:
        git = folder / ".git"
        if git.exists():
            try:
                return _head(_git_folder(git))
            except (OSError, ValueError):
                return None
    return None


def _git_folder(git: Path) -> Path:
    # Of a second working tree `.git` is a file that names the folder.
    if git.is_file():
        return (git.parent / git.read_text().partition("gitdir:")[2].strip()).resolve()
    return git


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head if _COMMIT.fullmatch(head) else None
    shared = git / "commondir"
    folders = [git, *([(git / shared.read_text().strip()).resolve()] if shared.is_file() else [])]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text().strip()
        packed = folder / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            commit, _, ref = line.partition(" ")
            if ref == name:
                return commit
    return None
