"""The spool on disk: events are complete or absent, bounded, and read in order."""

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
from headwater.openlineage.spool.files import (
    Losses,
    OverflowPolicy,
    Spool,
    decode_line,
    encode_line,
    segments_of,
    used_bytes,
)
from headwater.openlineage.spool.losses import lost_path, read_lost
from headwater.openlineage.spool.orphans import (
    Backlog,
    claim_orphans,
    keep_refused,
    pending_events,
    refused_path,
)
from headwater.settings import load


def numbers(backlog: Backlog) -> list[int]:
    """Read and remove all events."""
    read = []
    while (entry := backlog.peek()) is not None:
        read.append(int(entry.body.partition(b":")[2].strip(b"}")))
        backlog.done()
    return read


def filled(folder: Path, count: int, **options: Any) -> Spool:
    spool = Spool(folder, **options)
    for number in range(count):
        spool.append({"n": number})
    return spool


def test_events_are_read_in_order_and_delivered_segments_are_removed(tmp_path: Path) -> None:
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


def test_doctor_reports_a_spool_that_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for spool, writable in (
        (tmp_path / "new" / "spool", True),
        (tmp_path / "file" / "spool", False),
    ):
        check = validation._spool(load(home=tmp_path, lineage={"spool": spool}))
        assert (check.ok, str(spool) in check.text) == (writable, True)
    assert "HEADWATER_LINEAGE__SPOOL" in (check.hint or "")


def test_unpaired_surrogates_are_replaced() -> None:
    written = decode_line(encode_line({"name": "data-\udcff \U0001f600 \x00\n"}))
    assert written is not None
    assert json.loads(written.decode()) == {"name": "data-? \U0001f600 \x00\n"}


def test_a_torn_last_line_is_skipped_and_counted(tmp_path: Path) -> None:
    spool = filled(tmp_path, 5)
    spool.close()
    (segment,) = segments_of(tmp_path)
    content = segment.read_bytes()
    segment.write_bytes(content[:-7])
    (orphan,) = claim_orphans(tmp_path)
    assert numbers(orphan.backlog) == [0, 1, 2, 3]
    assert orphan.backlog.torn == 1
    orphan.release()
    assert segments_of(tmp_path) == []


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    spool = filled(tmp_path, 5)
    spool.close()
    (segment,) = segments_of(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b'{"n":2}', b'{"n":7}'))
    (orphan,) = claim_orphans(tmp_path)
    assert numbers(orphan.backlog) == [0, 1, 3, 4]
    assert orphan.backlog.torn == 1


def test_a_reader_waits_for_a_line_that_is_still_being_written(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    reader = Backlog(spool.folder, spool)
    assert numbers(reader) == [0]
    (segment,) = segments_of(tmp_path)
    with segment.open("ab") as file:
        file.write(b"0000 half of a li")
    assert reader.peek() is None
    assert reader.torn == 0


def test_delivered_events_are_not_delivered_by_the_next_process(tmp_path: Path) -> None:
    spool = filled(tmp_path, 4)
    reader = Backlog(spool.folder, spool)
    for _ in range(3):
        assert reader.peek() is not None
        reader.done()
    spool.close()
    (orphan,) = claim_orphans(tmp_path)
    assert numbers(orphan.backlog) == [3]


def test_only_spools_of_dead_processes_are_claimed_and_by_one_process(tmp_path: Path) -> None:
    alive, dead = filled(tmp_path, 1), filled(tmp_path, 2)
    dead.close()
    assert sorted((each.alive, each.events) for each in pending_events(tmp_path)) == [
        (False, 2),
        (True, 1),
    ]
    (orphan,) = claim_orphans(tmp_path)
    assert orphan.backlog.folder == dead.folder
    assert claim_orphans(tmp_path) == []
    orphan.release()
    alive.close()
    assert len(claim_orphans(tmp_path)) == 2


@pytest.mark.parametrize("overflow_policy", ["drop-oldest", "drop-new"])
def test_the_spool_is_bounded_and_counts_dropped_events(
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
def test_a_segment_with_a_failed_write_is_not_written_again(
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
    assert len(touched) == 1, "a failed fsync is not retried on the same file"
    assert spool.counts.dropped == 1
    assert spool.append({"n": 3})
    assert len(segments_of(tmp_path)) == 2
    spool.close()
    (orphan,) = claim_orphans(tmp_path)
    assert numbers(orphan.backlog) == ([0, 1, 3] if failing == "write" else [0, 1, 2, 3])
    assert orphan.backlog.torn == (1 if failing == "write" else 0)


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


def test_events_on_disk_survive_a_kill(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _WRITER, str(tmp_path)], check=False)
    assert done.returncode == -9
    (orphan,) = claim_orphans(tmp_path)
    # The event that was being written may be there as well.
    assert numbers(orphan.backlog)[:20] == list(range(20))


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
    (orphan,) = claim_orphans(tmp_path)
    assert sorted(numbers(orphan.backlog)) == sorted(list(range(50)) * 4)


def test_refused_events_are_stored_with_the_response_and_bounded(
    tmp_path: Path,
) -> None:
    for number in range(100):
        body = b'{"n": %d}' % number
        keep_refused(tmp_path, body, 400, "no " * 3000, "2026-01-01", max_bytes=5_000)
    path = refused_path(tmp_path)
    assert path.stat().st_size <= 5_000
    assert b'"event":{"n":99}' in path.read_bytes()


def test_pending_events_are_counted_when_delivery_ended_at_the_end_of_a_segment(
    tmp_path: Path,
) -> None:
    """`sent` names a segment that is completely delivered, or removed."""
    spool = Spool(tmp_path, 1024 * 1024)
    fill = "x" * 70_000
    for number in range(3):
        spool.append({"n": number, "fill": fill})
    assert len(segments_of(tmp_path)) == 3
    reader = Backlog(spool.folder, spool)
    assert reader.peek() is not None
    reader.done()
    spool.close()
    assert [each.events for each in pending_events(tmp_path)] == [2]
    min(segments_of(tmp_path)).unlink()
    assert [each.events for each in pending_events(tmp_path)] == [2]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_disk_error_that_is_not_about_space_drops_no_other_event(
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
    assert spool.append({"n": 3}), "the event is written to a new segment"
    fails.append(True)
    monkeypatch.setattr(os, "open", _refused(code))
    assert not spool.append({"n": 4})
    monkeypatch.undo()
    spool.close()
    (orphan,) = claim_orphans(tmp_path)
    # The first attempt of 3 may be on disk as well.
    assert list(dict.fromkeys(numbers(orphan.backlog)))[:4] == [0, 1, 2, 3]
    assert spool.counts.dropped == 1


def _refused(code: int) -> Any:
    def refuse(*args: Any) -> int:
        raise OSError(code, os.strerror(code))

    return refuse


def test_an_event_larger_than_the_spool_drops_only_itself(tmp_path: Path) -> None:
    spool = filled(tmp_path, 5, limit_bytes=50_000)
    assert not spool.append({"n": 5, "fill": "x" * 60_000})
    assert spool.counts.dropped == 1
    assert "lineage.spool_mb" in str(spool.counts.reason)
    spool.close()
    (orphan,) = claim_orphans(tmp_path)
    assert numbers(orphan.backlog) == [0, 1, 2, 3, 4]


def test_the_new_event_is_dropped_if_old_segments_can_not_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = filled(tmp_path, 5, limit_bytes=150)
    monkeypatch.setattr(Path, "unlink", _refused(errno.EROFS))
    while spool.append({"n": 9}):
        pass
    assert spool.counts.dropped == 1


def test_losses_are_counted_after_their_process_has_ended(tmp_path: Path) -> None:
    for _ in range(2):
        spool = filled(tmp_path, 2, limit_bytes=50_000)
        spool.append({"fill": "x" * 60_000})
        spool.losses.add(2, "the spool's disk is too slow")
        assert spool.append({"n": 2})
        written = read_lost(tmp_path)
        spool.close()
        # Written before the end, which may be a kill.
        assert written == read_lost(tmp_path)
    lost = read_lost(tmp_path)
    assert lost is not None
    assert (lost.events, lost.reason) == (6, "the spool's disk is too slow")
    lost_path(tmp_path).unlink()
    assert read_lost(tmp_path) is None


def test_a_loss_that_can_not_be_written_is_written_with_the_next(
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


def test_a_concurrent_liveness_check_does_not_prevent_claiming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = filled(tmp_path, 2)
    dead.close()
    checking = (dead.folder / "lock").open()
    fcntl.flock(checking, fcntl.LOCK_SH)
    # The check ends while `claim_orphans` waits.
    monkeypatch.setattr(time, "sleep", lambda seconds: checking.close())
    (orphan,) = claim_orphans(tmp_path)
    assert numbers(orphan.backlog) == [0, 1]


def test_unreadable_spools_are_listed_with_the_others(tmp_path: Path) -> None:
    unreadable, other = filled(tmp_path, 2), filled(tmp_path, 3)
    unreadable.close()
    # A directory instead of file permissions, which root would ignore.
    segment = unreadable.folder / "000001.events"
    segment.unlink()
    segment.mkdir()
    pending = {each.alive: each for each in pending_events(tmp_path)}
    assert (pending[False].events, pending[True].events) == (0, 3)
    assert str(pending[False].trouble).startswith("Is a directory")
    other.close()


def test_a_new_spool_is_synced_with_its_parent_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[tuple[int, int]] = set()
    real = os.fsync

    def fsync(file: int) -> None:
        status = os.fstat(file)
        synced.add((status.st_dev, status.st_ino))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    spool = filled(tmp_path / "spool", 1)
    spool.close()
    (segment,) = segments_of(tmp_path / "spool")
    for path in (segment, spool.folder, spool.root, tmp_path):
        assert (path.stat().st_dev, path.stat().st_ino) in synced, path
