"""The CDS archive: used only by the Java that wrote it, and ignored if it is invalid."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headwater.errors import NotInstalledError
from headwater.jvm import jars as jvm_cds
from headwater.jvm.installed import Java, find_java
from headwater.jvm.jars import cds_archive_path, cds_use_options, outdated_cds_archives
from headwater.settings import Settings
from headwater.spark import cds as spark_cds
from headwater.spark.cds import write_cds_archive


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Settings()


def test_no_options_are_set_without_an_archive(settings: Settings) -> None:
    assert cds_use_options(find_java(settings), settings) == ""


def test_each_java_has_its_own_archive(settings: Settings, tmp_path: Path) -> None:
    first, second = (Java(tmp_path / name, 17, "test") for name in ("one", "other"))
    assert cds_archive_path(first, settings) == cds_archive_path(first, settings)
    before = cds_archive_path(first, settings)
    assert before != cds_archive_path(second, settings)
    first.home.mkdir()
    (first.home / "release").write_text('JAVA_VERSION="17.0.99"')
    assert cds_archive_path(first, settings) != before, "an updated Java needs a new archive"


def test_a_reinstalled_spark_needs_a_new_archive_and_the_old_one_is_outdated(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "spark-core.jar"
    jar.write_bytes(b"classes")
    monkeypatch.setattr(jvm_cds, "spark_jars", lambda settings: [jar])
    java = Java(tmp_path, 17, "test")
    before = cds_archive_path(java, settings)
    before.parent.mkdir(parents=True)
    before.touch()
    (before.parent / "spark-of-another-place.jsa").touch()
    assert outdated_cds_archives(before) == []
    # Like pip: the same file with another time.
    os.utime(jar, (1, 1))
    now = cds_archive_path(java, settings)
    assert now != before
    assert outdated_cds_archives(now) == [before]
    assert cds_use_options(java, settings) == ""


def test_an_existing_archive_is_kept(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cds_archive_path(find_java(settings), settings)
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setattr(spark_cds, "create_session", None)
    assert write_cds_archive(settings) == path


def test_the_error_names_a_java_that_cannot_write_an_archive(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    monkeypatch.setattr(spark_cds, "find_java", lambda settings: Java(tmp_path, 17, "test"))
    with pytest.raises(NotInstalledError, match=str(binary)):
        write_cds_archive(settings)


def test_java_ignores_an_invalid_archive_without_a_message(settings: Settings) -> None:
    java = find_java(settings)
    path = cds_archive_path(java, settings)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not an archive")
    options = cds_use_options(java, settings).split()
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


def test_an_archive_in_a_path_with_a_space_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    settings = Settings()
    java = find_java(settings)
    path = cds_archive_path(java, settings)
    path.parent.mkdir(parents=True)
    path.touch()
    assert cds_use_options(java, settings) == ""
