"""`why-missing` and `dead-letter`: invalid arguments are refused before Kafka is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.app import main
from headwater.cli.output import reading_progress


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("why-missing visits --in out", "not an address: 'visits'"),
        ("why-missing visits/0@1", "--in"),
        ("why-missing visits/0@1 --in out --checkpoint none", "does not exist"),
        ("dead-letter list out --since noon", "not a time: 'noon'"),
        ("dead-letter list out --max 0", "0 is not in the range"),
        ("dead-letter redrive out --record here", "not an address: 'here'"),
        ("dead-letter redrive out --max-redrives 0", "0 is not in the range"),
        ("dead-letter", "list"),
    ],
)
def test_an_invalid_argument_exits_with_2_and_a_message(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(command.split())
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert message in " ".join(error.split())
    assert "Traceback" not in error


def test_without_a_terminal_progress_takes_a_few_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with reading_progress() as progress:
        for done in range(0, 1_000_001, 10_000):
            progress("visits", done, 1_000_000)
    assert len(capsys.readouterr().err.splitlines()) == 4
