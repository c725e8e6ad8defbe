"""Lookups of edges in the index, compared with all edges."""

from __future__ import annotations

import importlib
import random
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
from tests.edge_tables import SCHEMA, edge, made, scan, write_index

from headwater.errors import LineageIndexError, NotInstalledError
from headwater.model import Address
from headwater.storage.index.reader import LineageIndex
from headwater.storage.offset_ranges import OffsetRanges

TOPICS = ("a", "b", "longer-name")


def children_of(index: LineageIndex, partition: tuple[str, int], parents: set[int]) -> set[str]:
    within = OffsetRanges.of(*((offset, offset) for offset in parents))
    children = set()
    for block in index.edges_from(partition, within):
        for first, last, child in zip(
            block.parent_first.tolist(),
            block.parent_last.tolist(),
            block.first.tolist(),
            strict=True,
        ):
            for parent in parents & set(range(first, last + 1)):
                children.add(str(Address(*block.partition, child + parent - first)))
    return children


def parents_of(index: LineageIndex, child: Address) -> set[str]:
    wanted = {(child.topic, child.partition): OffsetRanges.of((child.offset, child.offset))}
    return {
        str(Address(*partition, offset))
        for partition, ranges in index.parents_of(wanted).items()
        for offset in ranges.offsets()
    }


def test_exactly_the_edges_of_a_record_are_returned_from_both_ends(tmp_path: Path) -> None:
    chance = random.Random(3)  # noqa: S311
    edges: dict[Address, set[str]] = {}
    for _ in range(4):  # commits
        rows = []
        for _ in range(300):
            parent = Address(chance.choice(TOPICS), chance.randrange(3), chance.randrange(400))
            child = Address(chance.choice(TOPICS), chance.randrange(3), chance.randrange(400))
            count = chance.choice((1, 1, 1, 50))
            rows.append(edge(str(parent), str(child), count))
            for step in range(count):
                above = Address(parent.topic, parent.partition, parent.offset + step)
                below = Address(child.topic, child.partition, child.offset + step)
                edges.setdefault(above, set()).add(str(below))
        # Small row groups, so that many are excluded.
        write_index(tmp_path, rows, row_group=16)
    index = LineageIndex(tmp_path)
    assert index.edge_rows() == 1200
    for parent, expected in edges.items():
        partition = (parent.topic, parent.partition)
        assert children_of(index, partition, {parent.offset}) == expected
    parents: dict[str, set[str]] = {}
    for parent, children in edges.items():
        for below_it in children:
            parents.setdefault(below_it, set()).add(str(parent))
    # Only some of them: each lookup reads all edges.
    for below_it in sorted(parents)[::50]:
        assert parents_of(index, Address.parse(below_it)) == parents[below_it]
    for partition, group in groupby(sorted(edges), key=lambda a: (a.topic, a.partition)):
        some = {a.offset for a in group if a.offset % 3 == 0}
        together = set().union(*(edges[Address(*partition, offset)] for offset in some))
        assert children_of(index, partition, some) == together
    assert children_of(index, ("a", 7), {1}) == set()
    assert children_of(index, ("unknown", 0), {1}) == set()


def test_an_open_index_is_refreshed(tmp_path: Path) -> None:
    write_index(tmp_path, [edge("a/0@1", "b/0@1")])
    index = LineageIndex(tmp_path)
    write_index(tmp_path, [edge("a/0@1", "b/0@7"), scan("b/0@0", 8)])
    assert children_of(index, ("a", 0), {1}) == {"b/0@1"}
    assert index.coverage() == {}
    index.refresh()
    assert children_of(index, ("a", 0), {1}) == {"b/0@1", "b/0@7"}
    assert index.coverage()["b", 0].end == 8


def test_the_output_of_a_job_is_selected_by_name_version_and_batches(tmp_path: Path) -> None:
    rows = [
        made("b/0@0", 10, "j", "v1", 0),
        made("b/0@10", 5, "j", "v1", 1),
        made("b/0@15", 5, "j", "v2", 2),
        made("c/0@0", 5, "other", "v1", 0),
    ]
    write_index(tmp_path, rows)
    index = LineageIndex(tmp_path)
    assert sorted(m.first for m in index.made_by("j", None, None)) == [0, 10, 15]
    assert [m.first for m in index.made_by("j", "v2", None)] == [15]
    assert sorted(m.first for m in index.made_by("j", None, (1, 2))) == [10, 15]
    assert list(index.made_by("unknown", None, None)) == []
    producer = index.producer_of(("b", 0), 12)
    assert producer is not None
    assert (producer.job_name, producer.batch_version) == ("j", 1)
    assert index.producer_of(("b", 0), 20) is None


def test_coverage_combines_all_scans(tmp_path: Path) -> None:
    write_index(tmp_path, [scan("b/0@0", 10, unlisted=3, unreadable=1), scan("b/1@5", 5)])
    write_index(tmp_path, [scan("b/0@10", 10, unlisted=4, refused=2), scan("b/1@20", 5)])
    coverage = LineageIndex(tmp_path).coverage()
    assert {partition: list(c.offsets.offsets()) for partition, c in coverage.items()} == {
        ("b", 0): list(range(20)),
        ("b", 1): [*range(5, 10), *range(20, 25)],
    }
    first = coverage["b", 0]
    assert (first.unlisted, first.unreadable, first.refused, first.end) == (7, 1, 2, 20)


def test_without_an_index_the_error_names_the_job_that_creates_it(tmp_path: Path) -> None:
    with pytest.raises(LineageIndexError, match="there is no index") as caught:
        LineageIndex(tmp_path / "nothing")
    assert "headwater run lineage_index_job" in (caught.value.hint or "")


def test_a_table_of_another_format_is_refused(tmp_path: Path) -> None:
    write_index(tmp_path / "newer", [scan("b/0@0", 1)], version="2")
    with pytest.raises(LineageIndexError, match="not an index of format 1: its format is 2"):
        LineageIndex(tmp_path / "newer")
    less = pa.schema([field for field in SCHEMA if field.name != "parent_last"])
    write_index(tmp_path / "less", [scan("b/0@0", 1)], schema=less)
    with pytest.raises(LineageIndexError, match="parent_last"):
        LineageIndex(tmp_path / "less")


def test_a_damaged_table_is_an_error(tmp_path: Path) -> None:
    write_index(tmp_path, [edge("a/0@1", "b/0@1")])
    (file,) = tmp_path.rglob("*.parquet")
    file.write_bytes(b"PAR1 this is none PAR1")
    index = LineageIndex(tmp_path)
    with pytest.raises(LineageIndexError, match="can't be read") as caught:
        children_of(index, ("a", 0), {1})
    assert "headwater run lineage_index_job" in (caught.value.hint or "")
    file.unlink()
    with pytest.raises(LineageIndexError, match="can't be read"):
        children_of(LineageIndex(tmp_path), ("a", 0), {1})
    for commit in tmp_path.glob("_delta_log/*.json"):
        commit.write_text("{")
    with pytest.raises(LineageIndexError):
        LineageIndex(tmp_path)
    shutil.rmtree(tmp_path / "_delta_log")
    with pytest.raises(LineageIndexError, match="there is no index"):
        LineageIndex(tmp_path)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.delitem(sys.modules, "headwater.storage.index.reader")
    with pytest.raises(NotInstalledError, match="deltalake") as caught:
        importlib.import_module("headwater.storage.index.reader")
    assert caught.value.hint == 'pip install "headwater[index]"'


def test_other_queries_do_not_import_numpy_or_pyarrow() -> None:
    code = "import sys, headwater.tracing; print({'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
