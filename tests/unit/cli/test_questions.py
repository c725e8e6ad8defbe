"""`why-missing`, `verify` and `dead-letter`: what is wrong with a question is told before Kafka
is asked, and progress is told in few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.app import main
from headwater.cli.output import reading_progress


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "told"),
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
def test_a_wrong_question_ends_with_2_and_says_what_is_wrong(
    command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert told in " ".join(shown.err.split())
    assert "Traceback" not in shown.err


def test_without_a_terminal_a_long_read_is_told_in_a_few_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with reading_progress() as watch:
        for done in range(0, 1_000_001, 10_000):
            watch("visits", done, 1_000_000)
    assert len(capsys.readouterr().err.splitlines()) == 4
