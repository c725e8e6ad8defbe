"""Locks on files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headwater.model.local_files import lock, locked


class BusyError(Exception):
    pass


def test_a_lock_is_held_until_the_body_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with locked(path, BusyError), pytest.raises(BusyError), locked(path, BusyError):
        pass
    with locked(path, BusyError):
        pass


def test_waiting_for_a_lock_ends_at_the_timeout(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, BusyError):
        started = time.monotonic()
        with pytest.raises(BusyError), locked(path, BusyError, timeout_seconds=0.1):
            pass
    assert time.monotonic() - started >= 0.1


def test_the_error_of_the_body_is_not_taken_for_a_busy_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), locked(tmp_path / "lock", BusyError):
        raise BlockingIOError


def test_shared_locks_do_not_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as one, path.open() as other:
        lock(one, shared=True)
        lock(other, shared=True)
        with path.open("a") as third, pytest.raises(BlockingIOError):
            lock(third)
