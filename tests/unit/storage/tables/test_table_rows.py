"""Rows found by their parents, in Arrow, against looking at each row."""

from __future__ import annotations

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
from headwater.storage.tables.files import PARENT_FIELDS, LineageFile
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import KnownTable, known_tables, register
from headwater.storage.tables.rows import rows_made_from, rows_of_job

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


def intervals(wanted: set[Address]) -> dict[tuple[str, int], OffsetRanges]:
    places = {(address.topic, address.partition) for address in wanted}
    return {
        place: OffsetRanges.of(
            *((w.offset, w.offset) for w in wanted if (w.topic, w.partition) == place)
        )
        for place in places
    }


@given(parents_of_rows, st.sets(addresses, max_size=8))
def test_a_row_is_found_if_and_only_if_one_of_its_parents_is_asked_for(
    rows: list[list[Address]], wanted: set[Address]
) -> None:
    found = rows_made_from(table([row(parents) for parents in rows]), intervals(wanted))
    assert found.tolist() == [bool(wanted & set(parents)) for parents in rows]


@given(rows=parents_of_rows, wanted=st.sets(addresses, min_size=1, max_size=3))
def test_row_groups_that_are_passed_over_hold_nothing_that_is_asked_for(
    rows: list[list[Address]], wanted: set[Address], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rows") / "part.parquet"
    lineage = table([row(parents) for parents in rows]).to_struct_array().combine_chunks()
    pq.write_table(pa.table({"n": range(len(rows)), "lineage": lineage}), path, row_group_size=3)
    asked = intervals(wanted)
    parts = list(LineageFile(path).lineage(PARENT_FIELDS, asked))
    assert sum(int(rows_made_from(part, asked).sum()) for part in parts) == sum(
        bool(wanted & set(parents)) for parents in rows
    )


def test_row_groups_are_passed_over_by_the_offsets_that_they_hold(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("rows") / "part.parquet"
    lineage = table([row([Address("a", 0, n)]) for n in range(100)]).to_struct_array()
    pq.write_table(pa.table({"lineage": lineage.combine_chunks()}), path, row_group_size=10)
    parts = list(LineageFile(path).lineage(PARENT_FIELDS, {("a", 0): OffsetRanges.of((42, 42))}))
    assert [part["offset"].to_pylist() for part in parts] == [list(range(40, 50))]


def test_rows_of_a_job_are_found_by_version_and_batch() -> None:
    rows = table([row([], "job", batch) for batch in range(5)] + [row([], "other", 3)])
    assert rows_of_job(rows, JobOutput("job")).sum() == 5
    assert rows_of_job(rows, JobOutput("job", "v1", (3, 4))).tolist() == [False] * 3 + [
        True
    ] * 2 + [False]
    assert not rows_of_job(rows, JobOutput("job", "v2")).any()


def test_tables_are_known_by_notes_and_by_settings(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("home")
    named = Settings.model_validate({"home": home, "index": {"tables": [home / "x", home / "y"]}})
    noted = KnownTable("demo.web.visits", str(home / "y"))
    register(noted, named)
    register(noted, named)
    assert known_tables(named) == [KnownTable(str(home / "x"), str(home / "x")), noted]
    with pytest.raises(LineageTableError, match="no Delta and no Iceberg table"):
        LineageTable(noted).find({}, None)
