"""The Java project: its versions, and Headwater's own jar."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from headwater import __version__
from headwater.errors import CheckFailedError, NotInstalledError
from headwater.jvm import distribution, jars
from headwater.jvm.compiler import checksum_file
from headwater.jvm.distribution import check_jars, copy_jars, require_ok
from headwater.jvm.installed import line_named
from headwater.jvm.jars import (
    COMMON,
    own_jar_name,
    project_digest,
    read_lock,
    sha256_of,
    source_files,
)
from headwater.jvm.versions import DEFAULT_LINE, SPARK_LINES, SparkLine
from headwater.settings import Settings, load

PROJECT = Path(__file__).parents[3] / "java"
JAR_NAME = own_jar_name(DEFAULT_LINE)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(jvm={"jars_dir": tmp_path / "cache"})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package without the repository; empty."""
    folder = tmp_path / "lib" / "site-packages" / "headwater"
    (folder / "jvm" / "own").mkdir(parents=True)
    monkeypatch.setattr(jars, "_package", lambda: folder)
    return folder


def ship(package: Path, content: bytes = b"classes") -> Path:
    jar = package / "jvm" / "own" / JAR_NAME
    jar.write_bytes(content)
    checksum_file(jar).write_text(f"{sha256_of(jar)}  {jar.name}\n")
    return jar


def test_the_versions_for_ides_are_the_pinned_ones() -> None:
    pom = ElementTree.parse(PROJECT / "pom.xml").getroot()  # noqa: S314
    found = {
        tuple(each.findtext(f"{{*}}{tag}", "") for tag in ("groupId", "artifactId", "version"))
        for each in pom.findall(".//{*}dependency")
    }
    locked = {
        tuple(jar.coordinate.split(":"))
        for name in (COMMON, DEFAULT_LINE.name)
        for jars in read_lock(name).values()
        for jar in jars
    }
    assert found - locked == set()
    assert {"kafka-clients", "openlineage-spark_2.13"} <= {name for _, name, _ in found}
    assert pom.findtext("{*}version", "") == __version__


def test_the_digest_of_the_project_depends_on_sources_and_resources(tmp_path: Path) -> None:
    project = tmp_path / "java"
    shutil.copytree(PROJECT / "src", project / "src")
    shutil.rmtree(project / "src" / "test")
    digest = project_digest(project, DEFAULT_LINE)
    assert digest == project_digest(PROJECT, DEFAULT_LINE), "not on its path, nor on its tests"
    (project / "src/main/resources/more").write_text("text")
    assert project_digest(project, DEFAULT_LINE) != digest
    (project / "src/main/resources/more").unlink()
    shutil.rmtree(project / "src" / "spark-3.5")
    assert project_digest(project, line_named("4.0")) != project_digest(PROJECT, line_named("4.0"))
    assert project_digest(project, DEFAULT_LINE) == digest, "nor on classes of older versions"
    source = project / "src/main/java/dev/headwater/delivery/Bytes.java"
    source.rename(source.with_name("Renamed.java"))
    assert project_digest(project, DEFAULT_LINE) != digest


@pytest.mark.parametrize(
    ("line", "sql", "checkpoint"),
    [("3.5_2.12", "3.5", "3.5"), ("4.0_2.13", "4.0", "3.5"), ("4.3_2.13", "4.0", "4.1")],
)
def test_a_line_has_each_class_from_the_newest_folder_up_to_its_spark(
    line: str, sql: str, checkpoint: str
) -> None:
    files = source_files(PROJECT, line_named(line))
    package = "java/dev/headwater/compat"
    assert f"src/spark-{sql}/" in files[f"{package}/SparkSql.java"].as_posix()
    assert f"src/spark-{checkpoint}/" in files[f"{package}/CheckpointFilesBase.java"].as_posix()
    scala = line.partition("_")[2]
    assert f"src/scala-{scala}/" in files[f"{package}/ListAggregate.java"].as_posix()


@pytest.mark.parametrize("line", SPARK_LINES, ids=lambda line: line.name)
def test_every_line_has_the_same_classes(line: SparkLine) -> None:
    assert source_files(PROJECT, line).keys() == source_files(PROJECT, DEFAULT_LINE).keys()


def test_an_installation_uses_the_shipped_jar(package: Path, settings: Settings) -> None:
    jar = ship(package)
    assert jars.own_jar(settings) == jar
    assert not settings.jars_dir.exists(), "nothing is fetched or compiled"


def test_an_installation_without_jar_and_sources_is_refused(
    package: Path, settings: Settings
) -> None:
    with pytest.raises(NotInstalledError) as caught:
        jars.own_jar(settings)
    assert str(package / "jvm" / "own" / JAR_NAME) in caught.value.message
    assert "--force-reinstall" in (caught.value.hint or "")


def test_an_editable_install_stores_the_jar_in_the_cache(settings: Settings) -> None:
    digest = project_digest(PROJECT, DEFAULT_LINE)
    path = jars.own_jar_path(settings)
    assert path == settings.jars_dir / f"headwater-{DEFAULT_LINE.name}-{digest}.jar"


def test_the_own_jar_is_checked_against_its_recorded_checksum(
    package: Path, settings: Settings
) -> None:
    jar = ship(package)
    (checked,) = check_jars([], settings)
    assert (checked.path, checked.name, checked.ok) == (jar, "headwater", True)
    require_ok([checked])
    jar.write_bytes(b"changed")
    with pytest.raises(CheckFailedError) as caught:
        require_ok(check_jars([], settings))
    assert str(jar) in caught.value.message
    assert "--force-reinstall" in (caught.value.hint or "")
    checksum_file(jar).unlink()
    assert [each.ok for each in check_jars([], settings)] == [False]


def test_jars_are_copied_under_names_that_do_not_change(
    package: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "ensure_jars", lambda *_: [])
    folder = tmp_path / "image" / "jars"
    for content in (b"old", b"new"):
        ship(package, content)
        assert copy_jars([], folder, settings) == [folder / JAR_NAME]
        assert [path.name for path in folder.iterdir()] == [JAR_NAME]
        assert (folder / JAR_NAME).read_bytes() == content


def test_a_changed_jar_is_not_copied(package: Path, settings: Settings, tmp_path: Path) -> None:
    ship(package).write_bytes(b"changed")
    with pytest.raises(CheckFailedError, match=JAR_NAME):
        copy_jars([], tmp_path / "image", settings)
    assert list((tmp_path / "image").iterdir()) == []
