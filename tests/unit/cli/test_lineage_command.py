"""`headwater spool` shows queued, lost and unreadable events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fault_server import serving, status

from headwater.cli.app import main
from headwater.openlineage.spool.files import Spool


@pytest.fixture(autouse=True)
def _with_a_spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_LINEAGE__SPOOL", str(tmp_path / "spool"))


def spool(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["spool", *arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_lost_events_are_shown_after_their_job_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spool("status", "--json") == 0
    assert json.loads(capsys.readouterr().out)["lost"] is None
    job = Spool(tmp_path / "spool", 10_000)
    job.append({"n": 0})
    job.append({"fill": "x" * 20_000})
    job.close()
    assert spool("status", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["events"], found["lost"]["events"]) == (1, 1)
    assert spool("status") == 0
    shown = capsys.readouterr().out
    assert "1 events were lost, most recently at 2" in shown
    assert "larger than lineage.spool_mb allows" in shown


def test_unreadable_events_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Spool(tmp_path / "spool")
    job.append({"n": 0})
    job.close()
    segment = job.folder / "000001.events"
    segment.unlink()
    segment.mkdir()
    assert spool("status") == 0
    assert "can't be read: Is a directory" in capsys.readouterr().out
    with serving(status(201)) as server:
        monkeypatch.setenv("MARQUEZ_URL", server.url)
        assert spool("flush") == 1
    assert "can't be read: Is a directory" in capsys.readouterr().err
