"""Kills around the commit of the index cause no loss and no duplicates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stamped import stamped, write
from tests.support import Headwater

from headwater.settings import Settings
from headwater.storage.index.reader import LineageIndex
from headwater.storage.offset_ranges import OffsetRanges
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(400)]

RECORDS = 60


def test_an_index_job_killed_before_and_after_its_commit_writes_each_edge_once(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    write(source, [[]] * RECORDS, broker)
    # In reverse order, so that edges do not form ranges and each is a row.
    write(target, [stamped(f"{source}/0@{n}") for n in reversed(range(RECORDS))], broker)
    index = tmp_path / "index"
    journal = broker.home_dir / "faults.journal"
    journal.unlink(missing_ok=True)
    command = ("run", "lineage_index_job", "--available-now", "--topics", f"{source},{target}")
    options = ("--checkpoint", str(tmp_path / "checkpoint"), "--max-records-per-batch", "50")
    table = {"HEADWATER_INDEX__TABLE": str(index)}
    # The first batch is killed before its commit; the second after it, before Spark's commit.
    for point in ("before_index_commit", "after_index_commit"):
        faults = {"HEADWATER_TESTING__FAULT_POINTS": f"{point}=kill"}
        assert headwater(*command, *options, **table, **faults).returncode == -9
    last = headwater(*command, *options, **table)
    assert last.returncode == 0, last.stderr
    fired = [line.split()[:2] for line in journal.read_text().splitlines()]
    assert fired == [["before_index_commit", "kill"], ["after_index_commit", "kill"]]

    written = LineageIndex(index)
    assert written.edge_rows() == RECORDS
    all_offsets = OffsetRanges.of((0, RECORDS - 1))
    edges = [
        edge
        for block in written.edges_from((source, 0), all_offsets)
        for edge in zip(block.parent_first.tolist(), block.first.tolist(), strict=True)
    ]
    assert sorted(edges) == [(n, RECORDS - 1 - n) for n in range(RECORDS)]
    assert {partition: len(c.offsets) for partition, c in written.coverage().items()} == {
        (source, 0): RECORDS,
        (target, 0): RECORDS,
    }
