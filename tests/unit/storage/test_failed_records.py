"""Failed records are stored next to the checkpoint, and used for the interrupted batch only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint

from headwater.errors import CheckpointError
from headwater.model import Address
from headwater.storage.failed_records import (
    FAILED_RECORDS_FILE,
    FailedRecord,
    FailedRecords,
    read_failed_records,
    save_failed_records,
)

FIRST = FailedRecord(Address("visits", 0, 3), "ValueError", "line\nand line")
SECOND = FailedRecord(Address("visits", 1, 9), "KeyError", "'ä'")


def interrupted(folder: Path) -> Path:
    """Batch 8 was started."""
    return write_checkpoint(folder, "visits", committed={0: 1}, planned={0: 10})


def test_records_of_the_interrupted_batch_are_read_as_they_were_stored(tmp_path: Path) -> None:
    checkpoint = interrupted(tmp_path)
    assert read_failed_records(checkpoint) == FailedRecords(8)
    save_failed_records(checkpoint, FailedRecords(8).plus([FIRST]).plus([SECOND]))
    stored = read_failed_records(checkpoint)
    assert stored is not None
    assert stored.found == ((FIRST,), (SECOND,))
    assert stored.records == (FIRST, SECOND)


def test_records_of_an_earlier_batch_are_not_used(tmp_path: Path) -> None:
    checkpoint = interrupted(tmp_path)
    save_failed_records(checkpoint, FailedRecords(7).plus([FIRST]))
    assert read_failed_records(checkpoint) == FailedRecords(8)


def test_between_batches_there_are_none(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path, "visits", committed={0: 1})
    save_failed_records(checkpoint, FailedRecords(7).plus([FIRST]))
    assert read_failed_records(checkpoint) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged"),
        ('{"version": 1, "batch": 8, "found": [[{"address": "x"}]]}', "is damaged"),
        (json.dumps({"version": 2}), "has the format version 2, not 1"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused(content: str, message: str, tmp_path: Path) -> None:
    checkpoint = interrupted(tmp_path)
    (checkpoint / FAILED_RECORDS_FILE).write_text(content)
    with pytest.raises(CheckpointError, match=message):
        read_failed_records(checkpoint)
