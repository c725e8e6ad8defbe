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
from headwater.jvm.jars import JAR_NAME, project_digest, read_lock, sha256_of
from headwater.jvm.versions import SPARK_VERSIONS
from headwater.settings import Settings, load

PROJECT = Path(__file__).parents[3] / "java"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(jvm={"jars_dir": tmp_path / "cache"})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package without the repository; empty."""
    folder = tmp_path / "lib" / "site-packages" / "headwater"
    (folder / "jvm").mkdir(parents=True)
    monkeypatch.setattr(jars, "_package", lambda: folder)
    return folder


def ship(package: Path, content: bytes = b"classes") -> Path:
    jar = package / "jvm" / JAR_NAME
    jar.write_bytes(content)
    checksum_file(jar).write_text(f"{sha256_of(jar)}  {jar.name}\n")
    return jar


def test_the_versions_for_ides_are_the_pinned_ones() -> None:
    pom = ElementTree.parse(PROJECT / "pom.xml").getroot()  # noqa: S314
    found = {
        tuple(each.findtext(f"{{*}}{tag}", "") for tag in ("groupId", "artifactId", "version"))
        for each in pom.findall(".//{*}dependency")
    }
    locked = {tuple(jar.coordinate.split(":")) for jars in read_lock().values() for jar in jars}
    spark = ("org.apache.spark", "spark-sql_2.13", SPARK_VERSIONS[0])
    assert found - locked == {spark}
    assert {"kafka-clients", "openlineage-spark_2.13"} <= {name for _, name, _ in found}
    assert pom.findtext("{*}version", "") == __version__


def test_the_digest_of_the_project_depends_on_sources_and_resources(tmp_path: Path) -> None:
    project = tmp_path / "java"
    shutil.copytree(PROJECT / "src" / "main", project / "src" / "main")
    digest = project_digest(project)
    assert digest == project_digest(PROJECT), "not on its path, nor on its tests"
    (project / "src/main/resources/more").write_text("text")
    assert project_digest(project) != digest
    (project / "src/main/resources/more").unlink()
    source = project / "src/main/java/dev/headwater/delivery/Bytes.java"
    source.rename(source.with_name("Renamed.java"))
    assert project_digest(project) != digest


def test_an_installation_uses_the_shipped_jar(package: Path, settings: Settings) -> None:
    jar = ship(package)
    assert jars.own_jar(settings) == jar
    assert not settings.jars_dir.exists(), "nothing is fetched or compiled"


def test_an_installation_without_jar_and_sources_is_refused(
    package: Path, settings: Settings
) -> None:
    with pytest.raises(NotInstalledError) as caught:
        jars.own_jar(settings)
    assert str(package / "jvm" / JAR_NAME) in caught.value.message
    assert "--force-reinstall" in (caught.value.hint or "")


def test_an_editable_install_stores_the_jar_in_the_cache(settings: Settings) -> None:
    path = jars.own_jar_path(settings)
    assert path == settings.jars_dir / f"headwater-{project_digest(PROJECT)}.jar"


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
