"""`jars cds` and its former name."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.app import headwater
from headwater.jvm.jars import cds_archive_path
from headwater.jvm.java import find_java
from headwater.settings import Settings


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An existing archive, which is kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = Settings()
    path = cds_archive_path(find_java(settings), settings)
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(3_000_000))
    return path


def test_cds_shows_the_archive(archive: Path) -> None:
    done = CliRunner().invoke(headwater, ["jars", "cds"], catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (0, f"3 MB in {archive}\n")


def test_the_former_name_works_with_a_warning_and_is_not_listed(archive: Path) -> None:
    done = CliRunner().invoke(headwater, ["jars", "archive"], catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (0, f"3 MB in {archive}\n")
    assert "`headwater jars archive` is deprecated: use `headwater jars cds`" in done.stderr
    listed = CliRunner().invoke(headwater, ["jars", "--help"]).stdout
    assert "cds" in listed
    assert "\n  archive" not in listed
