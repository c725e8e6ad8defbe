"""`jars cds` and its former name, `jars verify` and `jars copy`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.app import headwater
from headwater.jvm import jars
from headwater.jvm.compiler import checksum_file
from headwater.jvm.installed import find_java
from headwater.jvm.jars import LockedJar, cds_archive_path
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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LockedJar:
    """A cache with one jar, whose content is the pinned one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_JVM__JARS_DIR", str(tmp_path))
    (tmp_path / "org.example_one-1.0.jar").write_bytes(b"content")
    one = LockedJar.of_file("delta", "org.example:one:1.0", tmp_path / "org.example_one-1.0.jar")
    monkeypatch.setattr(jars, "read_lock", lambda name: {"delta": (one,)})
    return one


def test_verify_counts_the_jars_with_the_expected_checksum(cache: LockedJar) -> None:
    done = CliRunner().invoke(headwater, ["jars", "verify", "delta"], catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (0, "1 jars have the expected checksums\n")


def test_verify_fails_if_a_jar_of_a_named_group_is_missing(
    cache: LockedJar, tmp_path: Path
) -> None:
    (tmp_path / cache.file_name).unlink()
    done = CliRunner().invoke(headwater, ["jars", "verify", "delta"])
    assert done.exit_code == 1
    assert cache.coordinate in str(done.exception)


def test_verify_names_the_file_that_differs_and_exits_with_1(
    cache: LockedJar, tmp_path: Path
) -> None:
    path = tmp_path / cache.file_name
    path.write_bytes(b"changed")
    done = CliRunner().invoke(headwater, ["jars", "verify", "delta"])
    assert done.exit_code == 1
    assert str(path) in str(done.exception)
    assert cache.sha256 in str(done.exception)


@pytest.mark.parametrize(("content", "code"), [(b"content", 0), (b"changed", 1)])
def test_verify_prints_json_also_for_a_jar_that_differs(
    cache: LockedJar, tmp_path: Path, content: bytes, code: int
) -> None:
    path = tmp_path / cache.file_name
    path.write_bytes(content)
    done = CliRunner().invoke(headwater, ["jars", "verify", "delta", "--json"])
    (row,) = json.loads(done.stdout)
    assert (done.exit_code, row["ok"]) == (code, not code)
    assert (row["file"], row["name"]) == (str(path), cache.coordinate)
    assert (row["expected"] == cache.sha256, row["sha256"] == cache.sha256) == (True, not code)


@pytest.mark.parametrize(("options", "line"), [([], "4.1_2.13"), (["--spark", "3.5"], "3.5_2.12")])
def test_copy_puts_the_jars_of_a_spark_into_a_folder(
    cache: LockedJar, tmp_path: Path, options: list[str], line: str
) -> None:
    package = tmp_path / "lib" / "site-packages" / "headwater"
    folder = tmp_path / "image"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "_package", lambda: package)
        shipped = package / "jvm" / "own" / f"headwater-spark-{line}.jar"
        shipped.parent.mkdir(parents=True)
        shipped.write_bytes(b"classes")
        checksum_file(shipped).write_text(f"{jars.sha256_of(shipped)}  {shipped.name}\n")
        done = CliRunner().invoke(
            headwater, ["jars", "copy", str(folder), "delta", *options], catch_exceptions=False
        )
    assert (done.exit_code, done.stdout) == (0, f"2 jars in {folder}\n")
    assert sorted(path.name for path in folder.iterdir()) == [
        f"headwater-spark-{line}.jar",
        "org.example_one-1.0.jar",
    ]
