"""Events on disk: whole or not at all, bounded, and the oldest first."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headwater.openlineage import validation
from headwater.openlineage.spool import orphans as backlogs
from headwater.openlineage.spool.files import (
    OverflowPolicy,
    Spool,
    decode_line,
    encode_line,
    segments_of,
    used_bytes,
)
from headwater.openlineage.spool.losses import Losses, lost_path, read_lost
from headwater.openlineage.spool.orphans import Backlog, adopt, waiting
from headwater.settings import load


def numbers(backlog: Backlog) -> list[int]:
    """Take all events."""
    found = []
    while (entry := backlog.peek()) is not None:
        found.append(int(entry.body.partition(b":")[2].strip(b"}")))
        backlog.done()
    return found


def filled(folder: Path, count: int, **given: Any) -> Spool:
    spool = Spool(folder, **given)
    for number in range(count):
        spool.append({"n": number})
    return spool


def test_events_come_back_in_their_order_and_files_go_when_they_are_read(tmp_path: Path) -> None:
    spool = filled(tmp_path, 300, limit_bytes=1024 * 1024)
    assert len(segments_of(tmp_path)) == 1
    reader = Backlog(spool.folder, spool)
    assert numbers(reader) == list(range(300))
    big = {"n": 0, "fill": "x" * 70_000}
    for _ in range(3):
        spool.append(big)
    assert len(segments_of(tmp_path)) == 3
    while reader.peek() is not None:
        reader.done()
    assert reader.peek() is None
    assert len(segments_of(tmp_path)) == 1, "only the one that is being written"


def test_doctor_says_when_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, fine in ((tmp_path / "new" / "spool", True), (tmp_path / "file" / "spool", False)):
        found = validation._spool(load(home=tmp_path, lineage={"spool": place}))
        assert (found.ok, str(place) in found.text) == (fine, True)
    assert "HEADWATER_LINEAGE__SPOOL" in (found.hint or "")


def test_a_text_that_is_no_text_for_others_is_written_as_one() -> None:
    written = decode_line(encode_line({"name": "data-\udcff \U0001f600 \x00\n"}))
    assert written is not None
    assert json.loads(written.decode()) == {"name": "data-? \U0001f600 \x00\n"}


def test_a_torn_last_line_is_skipped_and_counted(tmp_path: Path) -> None:
    spool = filled(tmp_path, 5)
    spool.close()
    (segment,) = segments_of(tmp_path)
    content = segment.read_bytes()
    segment.write_bytes(content[:-7])
    (left,) = adopt(tmp_path)
    assert numbers(left.backlog) == [0, 1, 2, 3]
    assert left.backlog.torn == 1
    left.release()
    assert segments_of(tmp_path) == []


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    spool = filled(tmp_path, 5)
    spool.close()
    (segment,) = segments_of(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b'{"n":2}', b'{"n":7}'))
    (left,) = adopt(tmp_path)
    assert numbers(left.backlog) == [0, 1, 3, 4]
    assert left.backlog.torn == 1


def test_a_reader_waits_for_a_line_that_is_still_being_written(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    reader = Backlog(spool.folder, spool)
    assert numbers(reader) == [0]
    (segment,) = segments_of(tmp_path)
    with segment.open("ab") as file:
        file.write(b"0000 half of a li")
    assert reader.peek() is None
    assert reader.torn == 0


def test_what_was_delivered_is_not_delivered_by_the_next_process(tmp_path: Path) -> None:
    spool = filled(tmp_path, 4)
    reader = Backlog(spool.folder, spool)
    for _ in range(3):
        assert reader.peek() is not None
        reader.done()
    spool.close()
    (left,) = adopt(tmp_path)
    assert numbers(left.backlog) == [3]


def test_only_what_dead_processes_left_is_adopted_and_by_one_only(tmp_path: Path) -> None:
    alive, dead = filled(tmp_path, 1), filled(tmp_path, 2)
    dead.close()
    assert sorted((each.alive, each.events) for each in waiting(tmp_path)) == [
        (False, 2),
        (True, 1),
    ]
    (left,) = adopt(tmp_path)
    assert left.backlog.folder == dead.folder
    assert adopt(tmp_path) == []
    left.release()
    alive.close()
    assert len(adopt(tmp_path)) == 2


@pytest.mark.parametrize("overflow_policy", ["drop-oldest", "drop-new"])
def test_the_spool_is_bounded_and_tells_what_it_drops(
    tmp_path: Path, overflow_policy: OverflowPolicy
) -> None:
    limit = 300_000
    dead = Spool(tmp_path, limit, overflow_policy)
    for number in range(10):
        dead.append({"n": number, "fill": "x" * 10_000})
    dead.close()
    spool = Spool(tmp_path, limit, overflow_policy)
    for number in range(10, 60):
        spool.append({"n": number, "fill": "x" * 10_000})
    assert used_bytes(tmp_path) <= limit
    assert spool.counts.dropped >= 25
    assert spool.counts.reason is not None
    assert "full" in spool.counts.reason
    spool.close()
    lines = b"".join(path.read_bytes() for path in segments_of(tmp_path))
    kept = lines.count(b"\n")
    assert kept + spool.counts.dropped == 60
    assert (b'"n":59,' in lines, b'"n":0,' in lines) == (
        (True, False) if overflow_policy == "drop-oldest" else (False, True)
    )


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_file_that_could_not_be_written_is_left_and_the_job_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    spool = filled(tmp_path, 2, overflow_policy="drop-new")
    touched: list[int] = []
    real = getattr(os, failing)

    def broken(file: int, *rest: Any) -> Any:
        touched.append(file)
        if failing == "write":
            real(file, rest[0][:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, broken)
        assert not spool.append({"n": 2})
    assert len(touched) == 1, "an fsync that failed is not tried again on the same file"
    assert spool.counts.dropped == 1
    assert spool.append({"n": 3})
    assert len(segments_of(tmp_path)) == 2
    spool.close()
    (left,) = adopt(tmp_path)
    assert numbers(left.backlog) == ([0, 1, 3] if failing == "write" else [0, 1, 2, 3])
    assert left.backlog.torn == (1 if failing == "write" else 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_drops_the_oldest(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let tests mount")
    try:
        spool = Spool(tmp_path / "spool", 200 * 1024 * 1024)
        spool._segment_bytes = 50_000
        for number in range(40):
            spool.append({"n": number, "fill": "x" * 10_000})
        assert spool.counts.dropped > 0
        lines = b"".join(path.read_bytes() for path in segments_of(tmp_path / "spool"))
        assert b'"n":39,' in lines
        assert b'"n":0,' not in lines
        spool.close()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


_WRITER = """
import sys
from pathlib import Path
from headwater.settings import fault_points
from headwater.openlineage.spool.files import Spool
fault_points.arm("before_spool_fsync=kill@21")
spool = Spool(Path(sys.argv[1]))
for number in range(100):
    spool.append({"n": number})
"""


def test_what_was_on_disk_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _WRITER, str(tmp_path)], check=False)
    assert done.returncode == -9
    (left,) = adopt(tmp_path)
    # The one that was being written may be there, too.
    assert numbers(left.backlog)[:20] == list(range(20))


def test_threads_share_a_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    threads = [
        threading.Thread(target=lambda: [spool.append({"n": n}) for n in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.close()
    (left,) = adopt(tmp_path)
    assert sorted(numbers(left.backlog)) == sorted(list(range(50)) * 4)


def test_refused_events_are_kept_with_the_answer_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlogs, "_MAX_REFUSED_BYTES", 5_000)
    for number in range(100):
        backlogs.set_aside(tmp_path, b'{"n": %d}' % number, 400, "no " * 3000, "2026-01-01")
    path = backlogs.refused_path(tmp_path)
    assert path.stat().st_size <= 5_000
    assert b'"event":{"n":99}' in path.read_bytes()


def test_what_waits_is_counted_when_delivery_has_ended_at_the_end_of_a_file(
    tmp_path: Path,
) -> None:
    """`sent` names a file that is read to its end, or gone; the next ones wait as a whole."""
    spool = Spool(tmp_path, 1024 * 1024)
    fill = "x" * 70_000
    for number in range(3):
        spool.append({"n": number, "fill": fill})
    assert len(segments_of(tmp_path)) == 3
    reader = Backlog(spool.folder, spool)
    assert reader.peek() is not None
    reader.done()
    spool.close()
    assert [each.events for each in waiting(tmp_path)] == [2]
    min(segments_of(tmp_path)).unlink()
    assert [each.events for each in waiting(tmp_path)] == [2]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_an_error_that_room_does_not_help_against_drops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    spool = filled(tmp_path, 3)
    fails = [True]
    real = os.fsync

    def once(file: int) -> None:
        if fails and fails.pop():
            raise OSError(code, os.strerror(code))
        real(file)

    monkeypatch.setattr(os, "fsync", once)
    assert spool.append({"n": 3}), "a new file was tried"
    fails.append(True)
    monkeypatch.setattr(os, "open", _refused(code))
    assert not spool.append({"n": 4})
    monkeypatch.undo()
    spool.close()
    (left,) = adopt(tmp_path)
    # The first try of 3 may be on disk, too.
    assert list(dict.fromkeys(numbers(left.backlog)))[:4] == [0, 1, 2, 3]
    assert spool.counts.dropped == 1


def _refused(code: int) -> Any:
    def refuse(*given: Any) -> int:
        raise OSError(code, os.strerror(code))

    return refuse


def test_an_event_that_is_larger_than_the_spool_drops_only_itself(tmp_path: Path) -> None:
    spool = filled(tmp_path, 5, limit_bytes=50_000)
    assert not spool.append({"n": 5, "fill": "x" * 60_000})
    assert spool.counts.dropped == 1
    assert "lineage.spool_mb" in str(spool.counts.reason)
    spool.close()
    (left,) = adopt(tmp_path)
    assert numbers(left.backlog) == [0, 1, 2, 3, 4]


def test_files_that_can_not_be_removed_cost_the_new_event_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = filled(tmp_path, 5, limit_bytes=150)
    monkeypatch.setattr(Path, "unlink", _refused(errno.EROFS))
    while spool.append({"n": 9}):
        pass
    assert spool.counts.dropped == 1


def test_losses_are_told_when_their_process_has_ended(tmp_path: Path) -> None:
    for _ in range(2):
        spool = filled(tmp_path, 2, limit_bytes=50_000)
        spool.append({"fill": "x" * 60_000})
        spool.losses.add(2, "the disk of the spool is too slow")
        assert spool.append({"n": 2})
        noted = read_lost(tmp_path)
        spool.close()
        # Before the end, too, which may be a kill.
        assert noted == read_lost(tmp_path)
    lost = read_lost(tmp_path)
    assert lost is not None
    assert (lost.events, lost.reason) == (6, "the disk of the spool is too slow")
    lost_path(tmp_path).unlink()
    assert read_lost(tmp_path) is None


def test_a_loss_that_can_not_be_noted_is_noted_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = Losses(tmp_path)
    losses.add(1, "first")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _refused(errno.ENOSPC))
        losses.write()
    assert read_lost(tmp_path) is None
    losses.add(1, "second " + "long " * 1000)
    losses.write()
    lost = read_lost(tmp_path)
    assert lost is not None
    assert (lost.events, lost.reason[:11]) == (2, "second long")


def test_somebody_who_asks_whether_a_process_lives_does_not_keep_it_from_being_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = filled(tmp_path, 2)
    dead.close()
    asking = (dead.folder / "lock").open()
    fcntl.flock(asking, fcntl.LOCK_SH)
    # The other one has its answer while this one waits.
    monkeypatch.setattr(time, "sleep", lambda seconds: asking.close())
    (left,) = adopt(tmp_path)
    assert numbers(left.backlog) == [0, 1]


def test_what_can_not_be_read_is_told_with_the_rest(tmp_path: Path) -> None:
    unreadable, other = filled(tmp_path, 2), filled(tmp_path, 3)
    unreadable.close()
    # Of files without rights root would read on.
    segment = unreadable.folder / "000001.events"
    segment.unlink()
    segment.mkdir()
    found = {each.alive: each for each in waiting(tmp_path)}
    assert (found[False].events, found[True].events) == (0, 3)
    assert str(found[False].trouble).startswith("Is a directory")
    other.close()


def test_a_spool_that_is_new_is_on_disk_with_the_entry_in_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[tuple[int, int]] = set()
    real = os.fsync

    def fsync(file: int) -> None:
        found = os.fstat(file)
        synced.add((found.st_dev, found.st_ino))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    spool = filled(tmp_path / "spool", 1)
    spool.close()
    (segment,) = segments_of(tmp_path / "spool")
    for path in (segment, spool.folder, spool.root, tmp_path):
        assert (path.stat().st_dev, path.stat().st_ino) in synced, path
