"""The archive of Spark's classes: found for the Java that made it, and harmless where it is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headwater.jvm.class_archive import archive_path, use_options
from headwater.jvm.java import Java, find_java
from headwater.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Settings()


def test_none_is_used_as_long_as_there_is_none(settings: Settings) -> None:
    assert use_options(find_java(settings), settings) == ""


def test_each_java_has_its_own(settings: Settings, tmp_path: Path) -> None:
    first, second = (Java(tmp_path / name, 17, "test") for name in ("one", "other"))
    assert archive_path(first, settings) == archive_path(first, settings)
    before = archive_path(first, settings)
    assert before != archive_path(second, settings)
    first.home.mkdir()
    (first.home / "release").write_text('JAVA_VERSION="17.0.99"')
    assert archive_path(first, settings) != before, "an update of Java is another Java"


def test_one_that_does_not_fit_is_passed_over_without_a_word(settings: Settings) -> None:
    java = find_java(settings)
    path = archive_path(java, settings)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no archive at all")
    options = use_options(java, settings).split()
    assert f"-XX:SharedArchiveFile={path}" in options
    done = subprocess.run(
        [str(java.binary), *options, "-version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
    assert "archive" not in done.stderr


def test_a_path_with_a_space_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    settings = Settings()
    java = find_java(settings)
    path = archive_path(java, settings)
    path.parent.mkdir(parents=True)
    path.touch()
    assert use_options(java, settings) == ""
