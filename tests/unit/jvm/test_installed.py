"""The Spark that is there: found by `SPARK_HOME` or pyspark, and read from the name of a jar."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyspark
import pytest

from headwater.errors import NotInstalledError, UnsupportedVersionError
from headwater.jvm.installed import installed_line, installed_spark
from headwater.settings import load


def spark_home(folder: Path, *names: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    for name in names:
        (folder / "jars" / name).touch()
    return folder


def test_without_spark_home_it_is_that_of_pyspark() -> None:
    spark = installed_spark(load())
    assert spark.version == pyspark.__version__
    assert spark.home == Path(pyspark.__file__).parent
    assert any(jar.name.startswith("spark-sql_") for jar in spark.jars)


@pytest.mark.parametrize(
    ("jar", "version", "scala", "line"),
    [
        ("spark-core_2.12-3.5.6-amzn-2.jar", "3.5.6-amzn-2", "2.12", "3.5_2.12"),
        ("spark-core_2.13-4.0.0+vendor.1.jar", "4.0.0+vendor.1", "2.13", "4.0_2.13"),
    ],
)
def test_spark_home_precedes_pyspark(
    jar: str, version: str, scala: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = spark_home(tmp_path / "spark", "a.jar", jar, "spark-core_2.13-tests.txt")
    monkeypatch.setenv("SPARK_HOME", str(home))
    spark = installed_spark(load())
    assert (spark.home, spark.version, spark.scala) == (home, version, scala)
    assert installed_line(load()).name == line


def test_an_unsupported_spark_is_found_but_has_no_line(tmp_path: Path) -> None:
    home = spark_home(tmp_path, "spark-core_2.12-3.3.2.jar")
    settings = load(jvm={"spark_home": home})
    assert installed_spark(settings).version == "3.3.2"
    with pytest.raises(UnsupportedVersionError, match=r"Spark 3\.3\.2"):
        installed_line(settings)


def test_a_folder_without_a_spark_is_named(tmp_path: Path) -> None:
    home = spark_home(tmp_path, "other.jar")
    with pytest.raises(NotInstalledError, match=str(tmp_path)) as caught:
        installed_spark(load(jvm={"spark_home": home}))
    assert "SPARK_HOME" in (caught.value.hint or "")


def test_without_any_spark_both_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotInstalledError, match="SPARK_HOME is not set and the package pyspark"):
        installed_spark(load())
