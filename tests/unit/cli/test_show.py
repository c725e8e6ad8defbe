"""The frame that rows are shown in is the one that Spark draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.archive_tables import record, write_batch

from headwater.cli.app import headwater
from headwater.cli.show import framed

SHOWN = """\
+----------------+---------+------+----+-----+---+----+
|value           |partition|offset|year|month|day|hour|
+----------------+---------+------+----+-----+---+----+
|{"page": "home"}|0        |0     |2024|9    |4  |7   |
|NULL            |0        |1     |2024|9    |4  |8   |
|\\xff\\x1b[0m     |1        |0     |2024|9    |4  |7   |
+----------------+---------+------+----+-----+---+----+
"""


def test_a_table_is_framed_as_spark_shows_it() -> None:
    # As `show(truncate=False)` of Spark 4.1 prints it: no column has less than three places.
    assert list(framed(["a", "long"], [["1", "x"], ["漢字", "longer"]])) == [
        "+----+------+",
        "|a   |long  |",
        "+----+------+",
        "|1   |x     |",
        "|漢字|longer|",
        "+----+------+",
    ]
    assert list(framed(["a"], [])) == ["+---+", "|a  |", "+---+", "+---+"]


def test_read_table_prints_the_columns_of_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_HOME", str(tmp_path))
    table = tmp_path / "archive" / "visits"
    rows = [record(0, value=b'{"page": "home"}'), record(1, value=None)]
    write_batch(table, [*rows, record(0, 1, value=b"\xff\x1b[0m")], hours=(7, 8))
    shown = CliRunner().invoke(headwater, ["read-table"])
    assert (shown.exit_code, shown.stdout) == (0, SHOWN)
    elsewhere = CliRunner().invoke(
        headwater, ["read-table", "--table", str(table), "--max", "1", "--json"]
    )
    assert elsewhere.stdout == (
        '{"value": "{\\"page\\": \\"home\\"}", "partition": 0, "offset": 0, "year": 2024, '
        '"month": 9, "day": 4, "hour": 7}\n'
    )
    assert "only the first 1 rows are shown" in elsewhere.stderr
