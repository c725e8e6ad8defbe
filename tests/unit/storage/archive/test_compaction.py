"""Compaction: the same records in fewer files, also with concurrent writes and failures."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.archive_tables import SCHEMA, make_archive, record, row_of, write_batch

from headwater.errors import ArchiveError, DiskFullError
from headwater.model import Record
from headwater.settings import Settings, fault_points
from headwater.storage.archive.compaction import compact, is_due, vacuum
from headwater.storage.archive.contract import OWN_FOLDER
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

SETTINGS = Settings()
EVERYTHING = {p: OffsetRanges.of((0, 10_000)) for p in (0, 1)}


def fill(path: Path, batches: int, size: int = 6) -> None:
    for batch in range(batches):
        numbers = range(batch * size, (batch + 1) * size)
        write_batch(path, [record(n, p) for n in numbers for p in (0, 1)], hours=(7, 8))


def everything(path: Path) -> list[Record]:
    return list(Archive(path).read(EVERYTHING))


def test_small_files_are_joined_by_hour_and_partition_in_order(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    before, archive = everything(tmp_path), Archive(tmp_path)
    shown: list[tuple[int, int]] = []
    done = compact(
        archive,
        SETTINGS,
        everything=True,
        progress=lambda task, done, total: shown.append((done, total)),
    )
    assert (done.files_before, done.files_after, done.joined) == (20, 4, 20)
    assert shown[-1] == (20, 20)
    assert everything(tmp_path) == before
    assert {(file.hour[3], file.partition) for file in archive.files} == {
        (7, 0),
        (7, 1),
        (8, 0),
        (8, 1),
    }
    for file in archive.files:
        assert pq.read_table(file.path)["offset"].to_pylist() == list(
            range(file.first, file.last + 1, 2)
        )
    # Other Delta readers see the same rows, and streams see no new data.
    table = DeltaTable(str(tmp_path))
    assert table.to_pyarrow_table().num_rows == len(before)
    commit = tmp_path / "_delta_log" / f"{table.version():020}.json"
    assert '"dataChange":true' not in commit.read_text()
    assert compact(archive, SETTINGS, everything=True).joined == 0
    assert not list((tmp_path / OWN_FOLDER).glob("*.parquet"))


def test_an_old_version_of_the_table_can_still_be_read(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    before = DeltaTable(str(tmp_path)).version()
    compact(Archive(tmp_path), SETTINGS, everything=True)
    assert DeltaTable(str(tmp_path), version=before).to_pyarrow_table().num_rows == 36


def test_records_that_are_appended_meanwhile_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 3)
    late = [record(n) for n in range(100, 104)]

    def append(name: str) -> None:
        if name == "before_archive_compaction":
            write_batch(tmp_path, late, hours=(7, 8))

    monkeypatch.setattr(fault_points, "reach", append)
    assert compact(Archive(tmp_path), SETTINGS, everything=True).joined == 12
    records = everything(tmp_path)
    assert len(records) == 36 + len(late)
    assert len(set(records)) == len(records)
    assert set(late) <= set(records)


def test_of_two_concurrent_compactions_one_skips_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 3)
    before = everything(tmp_path)

    def overtake(name: str) -> None:
        monkeypatch.setattr(fault_points, "reach", lambda name: None)
        compact(Archive(tmp_path), SETTINGS, everything=True)

    monkeypatch.setattr(fault_points, "reach", overtake)
    done = compact(Archive(tmp_path), SETTINGS, everything=True)
    assert (done.joined, done.left_to_others, done.files_after) == (0, 4, 4)
    assert everything(tmp_path) == before


def test_a_failed_compaction_does_not_change_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 3)
    before, version = everything(tmp_path), Archive(tmp_path).version

    def full(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(DiskFullError, match="No space left"):
        compact(Archive(tmp_path), SETTINGS, everything=True)
    monkeypatch.undo()
    fault_points.arm("before_archive_compaction=raise")
    try:
        with pytest.raises(fault_points.FaultInjectedError):
            compact(Archive(tmp_path), SETTINGS, everything=True)
    finally:
        fault_points.disarm()
    assert (everything(tmp_path), Archive(tmp_path).version) == (before, version)
    leftover = sorted(path.name for path in tmp_path.rglob("joined-*.parquet"))
    assert len(leftover) == 4
    # The next compaction writes the same files, so they do not accumulate.
    compact(Archive(tmp_path), SETTINGS, everything=True)
    assert sorted(path.name for path in tmp_path.rglob("joined-*.parquet")) == leftover
    assert everything(tmp_path) == before


def test_a_scheduled_compaction_needs_small_files_and_keeps_large_ones(
    tmp_path: Path,
) -> None:
    archive_settings = SETTINGS.archive.model_copy(update={"compact_at_files": 12})
    settings = SETTINGS.model_copy(update={"archive": archive_settings})
    fill(tmp_path, 2)
    assert not is_due(Archive(tmp_path), settings)
    many = [record(n, value=os.urandom(40).hex().encode()) for n in range(12, 2000)]
    write_batch(tmp_path, many, hours=(7, 8))
    for begin in range(2000, 2040, 10):
        write_batch(tmp_path, [record(n) for n in range(begin, begin + 10)], hours=(7, 8))
    archive = Archive(tmp_path)
    assert is_due(archive, settings)
    large = [file.name for file in archive.files if file.rows > 900]
    compact(archive, settings)
    # Small files after the large ones are joined, and those of the other partition.
    assert {file.name for file in archive.files} > set(large)
    assert len(archive.files) == 2 + 2 + 2 + 4
    assert not is_due(archive, settings)
    assert archive.coverage()[0].gaps == []


def test_rows_are_sorted_by_offset(tmp_path: Path) -> None:
    fill(tmp_path, 1, size=10)
    rows = [row_of(record(n), (7,)) for n in range(29, 9, -1)]
    write_deltalake(str(tmp_path), pa.Table.from_pylist(rows, SCHEMA), mode="append")
    archive = Archive(tmp_path)
    compact(archive, SETTINGS, everything=True)
    (joined,) = (f for f in archive.files if (f.hour[3], f.partition) == (7, 0))
    offsets = pq.read_table(joined.path)["offset"].to_pylist()
    assert offsets == [*range(0, 10, 2), *range(10, 30)]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    archive = Archive(tmp_path)
    archive.files[0].path.unlink()
    with pytest.raises(ArchiveError, match="could not be compacted"):
        compact(archive, SETTINGS, everything=True)


def test_a_table_with_an_unsupported_delta_feature_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    version = Archive(tmp_path).version + 1
    features = ["appendOnly", "invariants", "rowTracking", "domainMetadata"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    log = tmp_path / "_delta_log" / f"{version:020}.json"
    log.write_text(json.dumps({"protocol": protocol}) + "\n")
    with pytest.raises(ArchiveError, match="can't be compacted") as refused:
        compact(Archive(tmp_path), SETTINGS, everything=True)
    assert "owTracking" in refused.value.message
    assert Archive(tmp_path).version == version


def test_a_table_with_a_change_data_feed_is_compacted_without_change_data(tmp_path: Path) -> None:
    make_archive(tmp_path, **{"delta.enableChangeDataFeed": "true"})
    fill(tmp_path, 2)
    before = everything(tmp_path)
    assert compact(Archive(tmp_path), SETTINGS, everything=True).joined
    assert everything(tmp_path) == before
    assert not (tmp_path / "_change_data").exists()


def test_vacuum_removes_old_unused_files_only(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    before = everything(tmp_path)
    live = Archive(tmp_path).files[0].path
    young, old = live.with_name("young.parquet"), live.with_name("old.parquet")
    for orphan in (young, old):
        orphan.write_bytes(live.read_bytes())
    for path in (old, live):
        os.utime(path, (0, 0))
    archive = Archive(tmp_path)
    assert vacuum(archive) == 1
    assert (young.exists(), old.exists(), live.exists()) == (True, False, True)
    # Readers may still use files that were just replaced.
    compact(archive, SETTINGS, everything=True)
    vacuum(archive)
    assert live.exists()
    assert everything(tmp_path) == before
