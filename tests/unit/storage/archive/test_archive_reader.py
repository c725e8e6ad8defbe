"""Reading an archive: unchanged records, only the needed files, and missing records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake
from tests.archive_tables import SCHEMA, make_archive, record, row_of, write_batch

from headwater.errors import ArchiveError, InputError
from headwater.kafka import Absence
from headwater.model import Address
from headwater.settings import Settings
from headwater.storage.archive.contract import OWN_FOLDER, archive_path
from headwater.storage.archive.coverage import read_holes, record_holes
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges


def offsets(archive: Archive, first: int, last: int, partition: int = 0) -> list[int]:
    records = archive.read({partition: OffsetRanges.of((first, last))})
    return [record.address.offset for record in records]


def test_records_are_read_unchanged(tmp_path: Path) -> None:
    headers = [("a", b"1"), ("a", None), ("b", b""), ("ü", b"\xff\x00")]
    values = [b'{"a": "\xc3\xbc"}', None, b"", b"\xff\xfe not text", b"\x00"]
    written = [record(n, value=value, headers=headers) for n, value in enumerate(values)]
    written.append(record(5))
    write_batch(tmp_path, written)
    archive = Archive(tmp_path)
    assert list(archive.read({0: OffsetRanges.of((0, 9))})) == written
    assert archive.fetch(Address("visits", 0, 3)) == written[3]
    assert archive.fetch(Address("visits", 0, 6)) is Absence.EXPIRED
    assert archive.fetch(Address("visits", 1, 3)) is Absence.EXPIRED
    assert archive.fetch(Address("others", 0, 3)) is Absence.NO_PARTITION


def test_a_range_over_overlapping_files_is_read_in_order(tmp_path: Path) -> None:
    write_batch(tmp_path, [record(n) for n in range(50)], hours=(7, 8, 9), row_group=4)
    # Not in order within the file, as if sorted by hour.
    backwards = pa.Table.from_pylist([row_of(record(n), (7,)) for n in range(59, 49, -1)], SCHEMA)
    small = WriterProperties(max_row_group_size=3)
    write_deltalake(str(tmp_path), backwards, mode="append", writer_properties=small)
    archive = Archive(tmp_path)
    assert offsets(archive, 5, 57) == list(range(5, 58))
    several = OffsetRanges.of((3, 4), (20, 22), (59, 70))
    read = [each.address.offset for each in archive.read({0: several})]
    assert read == [3, 4, 20, 21, 22, 59]
    assert archive.plan({0: several}).records == 6


def test_only_files_with_the_range_are_opened(tmp_path: Path) -> None:
    for begin in range(0, 100, 10):
        batch = [record(n, partition) for n in range(begin, begin + 10) for partition in (0, 1)]
        write_batch(tmp_path, batch, hours=(7, 8))
    archive = Archive(tmp_path)
    wanted = {1: OffsetRanges.of((35, 44))}
    chosen = archive.plan(wanted).files
    assert len(chosen) == 4
    # Files that are not opened may be missing.
    for file in archive.files:
        if file.name not in chosen:
            file.path.unlink()
    assert offsets(archive, 35, 44, partition=1) == list(range(35, 45))
    with pytest.raises(ArchiveError, match="can't be read") as caught:
        offsets(archive, 45, 55, partition=1)
    assert "headwater archive status" in (caught.value.hint or "")


def test_coverage_has_first_last_and_gaps_of_each_partition(tmp_path: Path) -> None:
    write_batch(tmp_path, [record(n) for n in range(5, 30)], hours=(7, 8))
    write_batch(tmp_path, [record(n) for n in range(40, 50)], hours=(7, 8))
    write_batch(tmp_path, [record(n, 3) for n in (0, 1, 2, 6, 7)])
    archive = Archive(tmp_path)
    coverage = archive.coverage()
    assert {p: (c.first, c.last, c.gaps) for p, c in coverage.items()} == {
        0: (5, 49, [(30, 39)]),
        3: (0, 7, [(3, 5)]),
    }
    plan = archive.plan({0: OffsetRanges.of((0, 60)), 1: OffsetRanges.of((2, 2))})
    assert plan.records == 35
    missing = {partition: ranges.ranges() for partition, ranges in plan.missing.items()}
    assert missing == {0: [(0, 4), (30, 39), (50, 60)], 1: [(2, 2)]}


def test_coverage_is_computed_from_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_batch(tmp_path, [record(n) for n in range(30)], hours=(7, 8, 9))
    write_batch(tmp_path, [record(n) for n in (*range(30, 39), *range(40, 50))], hours=(7, 8))
    record_holes(tmp_path, 0, OffsetRanges.of((39, 39)))
    archive = Archive(tmp_path)
    monkeypatch.setattr("headwater.storage.archive.files.ArchiveFile.read_all", None)
    (coverage,) = archive.coverage().values()
    assert (coverage.archived.ranges(), coverage.gaps) == ([(0, 38), (40, 49)], [])
    assert coverage.holes.ranges() == [(39, 39)]


def test_a_recorded_hole_is_not_a_gap_and_a_cut_off_line_is_skipped(tmp_path: Path) -> None:
    write_batch(tmp_path, [record(n) for n in (0, 1, 4, 5, 9)])
    record_holes(tmp_path, 0, OffsetRanges.of((2, 3)))
    file = tmp_path / OWN_FOLDER / "holes.jsonl"
    file.write_bytes(file.read_bytes() + b'{"partition": 0, "first": 7, "la')
    record_holes(tmp_path, 0, OffsetRanges.of((10, 11)))
    assert read_holes(tmp_path)[0].ranges() == [(2, 3), (10, 11)]
    (coverage,) = Archive(tmp_path).coverage().values()
    assert (coverage.last, coverage.gaps) == (11, [(6, 8)])


def test_records_of_a_missing_file_are_lost(tmp_path: Path) -> None:
    for begin in (0, 10, 20):
        write_batch(tmp_path, [record(n) for n in range(begin, begin + 10)])
    archive = Archive(tmp_path)
    archive.files_of({0: OffsetRanges.of((10, 10))})[0].unlink()
    (coverage,) = archive.coverage().values()
    assert coverage.lost.ranges() == coverage.gaps == [(10, 19)]
    (missing,) = archive.plan({0: OffsetRanges.of((5, 12))}).missing.values()
    assert missing.ranges() == [(10, 12)]


def test_files_with_mixed_partitions_are_read(tmp_path: Path) -> None:
    mixed = [record(n, partition) for n in range(0, 20, 2) for partition in (0, 1)]
    write_batch(tmp_path, mixed, one_commit_each=False)
    archive = Archive(tmp_path)
    assert {p: len(c.gaps) for p, c in archive.coverage().items()} == {0: 9, 1: 9}
    assert offsets(archive, 3, 9, partition=1) == [4, 6, 8]


def test_later_commits_are_read_after_a_refresh(tmp_path: Path) -> None:
    write_batch(tmp_path, [record(0)])
    archive = Archive(tmp_path)
    write_batch(tmp_path, [record(1)])
    assert offsets(archive, 0, 5) == [0]
    archive.refresh()
    assert offsets(archive, 0, 5) == [0, 1]


def test_other_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no archive") as caught:
        Archive(tmp_path / "nothing")
    assert "data_synchronization_job" in (caught.value.hint or "")
    make_archive(tmp_path / "newer", version="2")
    with pytest.raises(ArchiveError, match="its format is 2"):
        Archive(tmp_path / "newer")
    other = pa.schema([field for field in SCHEMA if field.name != "headers"])
    make_archive(tmp_path / "other", schema=other)
    with pytest.raises(ArchiveError, match="columns are missing: headers"):
        Archive(tmp_path / "other")
    settings = Settings(home=tmp_path)
    make_archive(archive_path("clicks", settings))
    with pytest.raises(ArchiveError, match="archive of 'visits', not of 'clicks'"):
        Archive.open("clicks", settings)
    with pytest.raises(InputError, match="not a topic name"):
        archive_path("../elsewhere", settings)


def test_the_reader_does_not_import_spark(tmp_path: Path) -> None:
    write_batch(tmp_path, [record(n) for n in range(3)])
    code = (
        "import json, sys; from pathlib import Path; "
        "from headwater.storage.archive.reader import Archive; "
        "from headwater.storage.archive.compaction import compact; "
        f"found = Archive(Path({str(tmp_path)!r})).coverage(); "
        "print(json.dumps([len(found[0].archived), 'pyspark' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == [3, False]
