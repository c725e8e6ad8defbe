"""The archive of Spark's classes: found for the Java that made it, and harmless where it is not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headwater.errors import NotInstalledError
from headwater.jvm import cds as class_archive
from headwater.jvm.cds import archive_path, outdated, use_options
from headwater.jvm.java import Java, find_java
from headwater.settings import Settings
from headwater.spark import cds as warm_start
from headwater.spark.cds import make_class_archive


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


def test_a_spark_installed_anew_has_none_and_the_one_from_before_is_known(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "spark-core.jar"
    jar.write_bytes(b"classes")
    monkeypatch.setattr(class_archive, "spark_jars", lambda: [jar])
    java = Java(tmp_path, 17, "test")
    before = archive_path(java, settings)
    before.parent.mkdir(parents=True)
    before.touch()
    (before.parent / "spark-of-another-place.jsa").touch()
    assert outdated(before) == []
    # As pip does it: the same file, written at another time.
    os.utime(jar, (1, 1))
    now = archive_path(java, settings)
    assert now != before
    assert outdated(now) == [before]
    assert use_options(java, settings) == ""


def test_one_that_is_there_is_not_made_again_unasked(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive_path(find_java(settings), settings)
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setattr(warm_start, "create_session", None)
    assert make_class_archive(settings) == path


def test_a_java_that_cannot_write_one_is_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    monkeypatch.setattr(warm_start, "find_java", lambda settings: Java(tmp_path, 17, "test"))
    with pytest.raises(NotInstalledError, match=str(binary)):
        make_class_archive(settings)


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
