"""Offsets and outputs of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint

from headwater.errors import CheckpointError
from headwater.settings import load
from headwater.storage.checkpoint import checkpoint_location, read_checkpoint


def test_started_committed_and_planned_offsets_are_read(tmp_path: Path) -> None:
    write_checkpoint(
        tmp_path,
        "visits",
        started={0: 2, 1: 0},
        committed={0: 7, 1: 3},
        planned={0: 9, 1: 3},
        outputs=("out", "out-dead-letter"),
    )
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.started, checkpoint.committed, checkpoint.planned, checkpoint.batch) == (
        {"visits": {0: 2, 1: 0}},
        {"visits": {0: 7, 1: 3}},
        {"visits": {0: 9, 1: 3}},
        8,
    )
    assert checkpoint.outputs is not None
    assert sorted(checkpoint.outputs) == ["out", "out-dead-letter"]


def test_an_uncommitted_first_batch_has_no_committed_offsets(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7})
    (tmp_path / "commits/7").unlink()
    (tmp_path / "offsets/7").rename(tmp_path / "offsets/0")
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.committed, checkpoint.planned["visits"], checkpoint.batch) == ({}, {0: 7}, 0)
    assert checkpoint.outputs is None


def test_several_kafka_sources_are_read_and_other_sources_skipped(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7})
    with (tmp_path / "offsets/7").open("a") as file:
        file.write('\n{"ads":{"0":5}}\n-\n{"logOffset":3}\n[1]\n{"visits":{"0":4}}')
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint is not None
    # For a topic that is read twice, the lower offset counts.
    assert checkpoint.committed == {"visits": {0: 4}, "ads": {0: 5}}


def test_a_checkpoint_without_a_batch_is_none(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    assert read_checkpoint(tmp_path / "none") is None


def test_the_error_names_the_damaged_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7})
    (tmp_path / "offsets/7").write_text("v1\n")
    with pytest.raises(CheckpointError, match="offsets/7"):
        read_checkpoint(tmp_path)


def test_a_local_checkpoint_means_the_same_as_text_as_uri_and_as_path(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home")
    folder = tmp_path / "checkpoint"
    for given in (folder, str(folder), folder.as_uri()):
        assert checkpoint_location("job", given, settings) == folder
    assert checkpoint_location("job", None, settings) == tmp_path / "home/checkpoints/job"
    elsewhere = "s3a://bucket/checkpoint"
    assert checkpoint_location("job", elsewhere, settings) == elsewhere
