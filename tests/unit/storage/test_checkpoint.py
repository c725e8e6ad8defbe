"""What a checkpoint says of a query: what it has read, and where it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint

from headwater.errors import CheckpointError
from headwater.storage.checkpoint import read_checkpoint


def test_started_committed_and_begun_are_told_apart(tmp_path: Path) -> None:
    write_checkpoint(
        tmp_path,
        "visits",
        started={0: 2, 1: 0},
        committed={0: 7, 1: 3},
        begun={0: 9, 1: 3},
        outputs=("out", "out-dead-letter"),
    )
    reading = read_checkpoint(tmp_path)
    assert reading is not None
    assert (reading.started, reading.committed, reading.begun, reading.batch) == (
        {"visits": {0: 2, 1: 0}},
        {"visits": {0: 7, 1: 3}},
        {"visits": {0: 9, 1: 3}},
        8,
    )
    assert reading.outputs is not None
    assert sorted(reading.outputs) == ["out", "out-dead-letter"]


def test_a_first_batch_that_is_not_done_has_nothing_committed(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7})
    (tmp_path / "commits/7").unlink()
    (tmp_path / "offsets/7").rename(tmp_path / "offsets/0")
    reading = read_checkpoint(tmp_path)
    assert reading is not None
    assert (reading.committed, reading.begun["visits"], reading.batch) == ({}, {0: 7}, 0)
    assert reading.outputs is None


def test_several_sources_are_read_and_those_of_others_passed_over(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7})
    with (tmp_path / "offsets/7").open("a") as file:
        file.write('\n{"ads":{"0":5}}\n-\n{"logOffset":3}\n[1]\n{"visits":{"0":4}}')
    reading = read_checkpoint(tmp_path)
    assert reading is not None
    # A topic that is read twice is done with where both are.
    assert reading.committed == {"visits": {0: 4}, "ads": {0: 5}}


def test_a_folder_in_which_no_batch_was_begun_says_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    assert read_checkpoint(tmp_path / "none") is None


def test_a_damaged_one_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7})
    (tmp_path / "offsets/7").write_text("v1\n")
    with pytest.raises(CheckpointError, match="offsets/7"):
        read_checkpoint(tmp_path)
