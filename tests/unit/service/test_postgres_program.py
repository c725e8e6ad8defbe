"""The copy of PostgreSQL's programs that root makes if other users may not enter their folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.service import postgres_program


def make_wheel(folder: Path) -> Path:
    binaries = folder / "wheel" / "pginstall18" / "bin"
    binaries.mkdir(parents=True)
    for name in ("postgres", "initdb", "pg_dump"):
        (binaries / name).write_text(f"the program {name}")
    (folder / "wheel.libs").mkdir()
    folder.chmod(0o700)
    return binaries


def test_processes_that_copy_at_the_same_time_use_one_complete_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries = make_wheel(tmp_path / "private")
    copies = tmp_path / "copies"
    monkeypatch.setattr(postgres_program, "program", lambda name: binaries / name)
    monkeypatch.setattr(postgres_program, "_COPIES", copies)
    # Threads have one process id; processes do not share the folder of an unfinished copy.
    ids = iter(range(100))
    monkeypatch.setattr("headwater.service.postgres_program.os.getpid", lambda: next(ids))
    with ThreadPoolExecutor(4) as threads:
        names = ["postgres", "initdb"] * 4
        found = list(threads.map(postgres_program._reachable, names))
    assert [path.read_text() for path in found] == [f"the program {name}" for name in names]
    (copy,) = copies.iterdir()
    assert sorted(path.name for path in found[0].parent.iterdir()) == ["initdb", "postgres"]
    assert copy.name.startswith("postgresql-")


def test_a_second_copy_leaves_the_first_as_it_is(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "private").parents[1]
    copy = tmp_path / "copies" / "postgresql"
    postgres_program._copy(wheel, copy)
    state = copy.stat()
    postgres_program._copy(wheel, copy)
    assert copy.stat().st_ino == state.st_ino
    assert [each.name for each in copy.parent.iterdir()] == [copy.name]
