"""Records of an archive as a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.archive_tables import record, write_batch

from headwater.cli.app import headwater

HEADINGS = ["value", "partition", "offset", "year", "month", "day", "hour"]
ROWS = [
    ['{"page":"home"}', "0", "0", "2024", "9", "4", "7"],
    ["NULL", "0", "1", "2024", "9", "4", "8"],
    ["\\xff\\x1b[0m", "1", "0", "2024", "9", "4", "7"],
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWATER_HOME", str(tmp_path))
    folder = tmp_path / "archive" / "visits"
    rows = [record(0, value=b'{"page":"home"}'), record(1, value=None)]
    write_batch(folder, [*rows, record(0, 1, value=b"\xff\x1b[0m")], hours=(7, 8))
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(headwater, arguments)


def cells(shown: Result) -> list[list[str]]:
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    frame, rows = lines[0], [line for line in lines if not line.startswith("+-")]
    assert (lines[2], lines[-1]) == (frame, frame)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def test_a_table_shows_the_columns_of_the_archive(table: Path) -> None:
    assert cells(run("archive", "read", "visits", "--format", "table")) == [HEADINGS, *ROWS]


def test_a_table_shows_only_the_selected_records(table: Path) -> None:
    selected = ("archive", "read", "visits", "--format", "table", "--partition", "0")
    assert cells(run(*selected)) == [HEADINGS, *ROWS[:2]]
    assert cells(run(*selected, "--first", "1")) == [HEADINGS, ROWS[1]]


def test_a_table_that_is_cut_names_the_option_that_shows_more(table: Path) -> None:
    shown = run("archive", "read", "visits", "--format", "table", "--limit", "1")
    assert cells(shown) == [HEADINGS, ROWS[0]]
    assert "only the first 1 rows are shown; --limit shows more" in shown.stderr


def test_the_former_command_shows_the_same_table_and_a_warning(table: Path) -> None:
    shown = run("read-table")
    assert cells(shown) == [HEADINGS, *ROWS]
    warning = "`headwater read-table` is deprecated: use `headwater archive read --format table`"
    assert warning in shown.stderr


def test_the_former_command_prints_json_lines(table: Path) -> None:
    shown = run("read-table", "--table", str(table), "--max", "1", "--json")
    assert shown.stdout == (
        '{"value": "{\\"page\\":\\"home\\"}", "partition": 0, "offset": 0, "year": 2024, '
        '"month": 9, "day": 4, "hour": 7}\n'
    )
    assert "only the first 1 rows are shown" in shown.stderr


def test_a_table_of_a_topic_can_not_be_followed() -> None:
    refused = run("consume", "visits", "--format", "table", "--follow")
    assert refused.exit_code == 2
    assert "--format table can't be used with --follow" in refused.stderr
