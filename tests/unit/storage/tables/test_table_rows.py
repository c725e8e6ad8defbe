"""Rows by their parents, compared with a check of each row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import LineageTableError
from headwater.model import Address, JobOutput
from headwater.settings import Settings
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.contract import FIELDS
from headwater.storage.tables.files import (
    PARENT_FIELDS,
    PRODUCER_FIELDS,
    LineageFile,
    flat,
    rows_made_from,
    rows_of_job,
    rows_within,
)
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import KnownTable, known_tables, register

_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
}
SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in FIELDS.items()])

addresses = st.builds(
    Address, st.sampled_from(["a", "b", "a-parents"]), st.integers(0, 2), st.integers(0, 30)
)
# No parents, one, or several.
parents_of_rows = st.lists(st.lists(addresses, max_size=4, unique=True), max_size=12)


def row(parents: list[Address], job: str = "job", batch: int = 0) -> dict[str, object]:
    one = parents[0] if len(parents) == 1 else None
    return {
        "topic": one.topic if one else None,
        "partition": one.partition if one else None,
        "offset": one.offset if one else None,
        "parents": [str(parent) for parent in parents] if len(parents) > 1 else None,
        "job_name": job,
        "job_version": "v1",
        "batch_version": batch,
    }


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def ranges_of(wanted: set[Address]) -> dict[tuple[str, int], OffsetRanges]:
    partitions = {(address.topic, address.partition) for address in wanted}
    return {
        partition: OffsetRanges.of(
            *((w.offset, w.offset) for w in wanted if (w.topic, w.partition) == partition)
        )
        for partition in partitions
    }


@given(parents_of_rows, st.sets(addresses, max_size=8))
def test_a_row_matches_if_and_only_if_one_of_its_parents_is_wanted(
    rows: list[list[Address]], wanted: set[Address]
) -> None:
    matching = rows_made_from(table([row(parents) for parents in rows]), ranges_of(wanted))
    assert matching.tolist() == [bool(wanted & set(parents)) for parents in rows]


@pytest.mark.parametrize("column", [pa.string(), pa.large_string(), pa.list_(pa.string())])
@given(rows=parents_of_rows, wanted=st.sets(addresses, max_size=8))
def test_addresses_alone_match_as_the_struct_does(
    column: pa.DataType, rows: list[list[Address]], wanted: set[Address]
) -> None:
    lists = [[*map(str, parents), "~c/0@3..9"] if parents else None for parents in rows]
    values = lists if column == pa.list_(pa.string()) else [",".join(e) if e else e for e in lists]
    stored = pa.table({"_lineage": pa.array(values, column)})
    lineage = flat(stored, (*PARENT_FIELDS, *PRODUCER_FIELDS), "_lineage")
    matching = rows_made_from(lineage, ranges_of(wanted)).tolist()
    assert matching == [bool(wanted & set(parents)) for parents in rows]
    within = rows_within(lineage, ranges_of({Address("c", 0, 7)})).tolist()
    assert within == [bool(parents) for parents in rows]
    assert not rows_of_job(lineage, JobOutput("job")).any()


def test_a_column_for_lineage_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="its column for lineage is int64"):
        flat(pa.table({"lineage": [1]}), PARENT_FIELDS)


@given(rows=parents_of_rows, wanted=st.sets(addresses, min_size=1, max_size=3))
def test_skipped_row_groups_contain_no_wanted_parent(
    rows: list[list[Address]], wanted: set[Address], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rows") / "part.parquet"
    lineage = table([row(parents) for parents in rows]).to_struct_array().combine_chunks()
    pq.write_table(pa.table({"n": range(len(rows)), "lineage": lineage}), path, row_group_size=3)
    ranges = ranges_of(wanted)
    parts = list(LineageFile(path).lineage(PARENT_FIELDS, ranges))
    assert sum(int(rows_made_from(part, ranges).sum()) for part in parts) == sum(
        bool(wanted & set(parents)) for parents in rows
    )


def test_row_groups_are_skipped_by_their_offsets(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("rows") / "part.parquet"
    lineage = table([row([Address("a", 0, n)]) for n in range(100)]).to_struct_array()
    pq.write_table(pa.table({"lineage": lineage.combine_chunks()}), path, row_group_size=10)
    parts = list(LineageFile(path).lineage(PARENT_FIELDS, {("a", 0): OffsetRanges.of((42, 42))}))
    assert [part["offset"].to_pylist() for part in parts] == [list(range(40, 50))]


def test_a_19_digit_offset_is_matched_and_one_beyond_kafkas_range_is_not() -> None:
    last = Address("a", 0, 2**63 - 1)
    rows: list[dict[str, object]] = [
        {**row([]), "parents": [str(last), "b/0@1"]},
        {**row([]), "parents": [f"a/0@{2**63}", "b/0@2"]},
        {**row([]), "parents": ["a/0@9999999999999999999", "b/0@3"]},
        row([last]),
    ]
    assert rows_made_from(table(rows), ranges_of({last})).tolist() == [True, False, False, True]
    # The other parent of such a row is still matched.
    others = {Address("b", 0, 2), Address("b", 0, 3)}
    assert rows_made_from(table(rows), ranges_of(others)).tolist() == [False, True, True, False]


def test_rows_of_a_job_match_by_version_and_batch() -> None:
    rows = table([row([], "job", batch) for batch in range(5)] + [row([], "other", 3)])
    assert rows_of_job(rows, JobOutput("job")).sum() == 5
    assert rows_of_job(rows, JobOutput("job", "v1", (3, 4))).tolist() == [False] * 3 + [
        True
    ] * 2 + [False]
    assert not rows_of_job(rows, JobOutput("job", "v2")).any()


def test_tables_are_registered_by_jobs_and_by_settings(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("home")
    settings = Settings.model_validate(
        {"home": home, "index": {"tables": [home / "x", home / "y"]}}
    )
    registered = KnownTable("demo.web.visits", str(home / "y"))
    register(registered, settings)
    register(registered, settings)
    assert known_tables(settings) == [KnownTable(str(home / "x"), str(home / "x")), registered]
    with pytest.raises(LineageTableError, match="neither a Delta nor an Iceberg table"):
        LineageTable(registered).find({}, None)


def test_a_location_with_the_slashes_of_an_earlier_version_is_the_same_table(
    tmp_path: Path,
) -> None:
    settings = Settings.model_validate({"home": tmp_path})
    register(KnownTable("demo.web.visits", "///x"), settings)
    register(KnownTable("demo.web.visits", "/x"), settings)
    assert known_tables(settings) == [KnownTable("demo.web.visits", "/x")]
