"""The locks: complete, consistent, and without URLs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import pytest

from headwater.errors import InternalError
from headwater.jvm.installed import installed_spark
from headwater.jvm.jars import COMMON, LockedJar, read_lock, sha256_of
from headwater.jvm.relock import render_lock
from headwater.jvm.versions import COMMON_GROUPS, SPARK_LINES, JarGroup, connectors_of
from headwater.settings import load

LOCKS: Mapping[str, Mapping[str, JarGroup]] = {
    COMMON: COMMON_GROUPS,
    **{line.name: line.groups for line in SPARK_LINES},
}
every_lock = pytest.mark.parametrize("name", LOCKS)
every_group = pytest.mark.parametrize(
    ("name", "group"), [(name, group) for name, groups in LOCKS.items() for group in groups]
)


def text_of(name: str) -> str:
    folder = resources.files("headwater.jvm") / "locks"
    return (folder / f"{name}.lock").read_text(encoding="utf-8")


def module_of(coordinate: str) -> str:
    return coordinate.rpartition(":")[0]


def lock_with(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "locks").mkdir()
    (folder / "locks" / "4.1_2.13.lock").write_text(text)
    monkeypatch.setattr(resources, "files", lambda package: folder)


def test_there_is_a_lock_for_each_line_and_one_for_the_rest() -> None:
    folder = resources.files("headwater.jvm") / "locks"
    assert sorted(file.name for file in folder.iterdir()) == sorted(f"{n}.lock" for n in LOCKS)


@every_lock
def test_a_lock_has_exactly_the_groups_of_the_table(name: str) -> None:
    assert list(read_lock(name)) == list(LOCKS[name])


@every_group
def test_every_coordinate_of_the_table_is_in_its_group(name: str, group: str) -> None:
    locked = {jar.coordinate for jar in read_lock(name)[group]}
    pinned = LOCKS[name][group]
    assert {*pinned.coordinates, *pinned.intransitive} <= locked


@every_group
def test_no_two_jars_of_a_group_are_the_same_module(name: str, group: str) -> None:
    modules = [module_of(jar.coordinate) for jar in read_lock(name)[group]]
    assert sorted(modules) == sorted(set(modules))


@every_group
def test_the_jars_of_a_group_are_sorted(name: str, group: str) -> None:
    coordinates = [jar.coordinate for jar in read_lock(name)[group]]
    assert coordinates == sorted(coordinates)


def test_no_connector_brings_a_second_version_of_a_library_of_spark() -> None:
    # Of the Spark that is there; it would precede that of Spark on the class path.
    spark = installed_spark(load())
    shipped = {re.sub(r"-\d.*", "", jar.name) for jar in spark.jars}
    locked = read_lock(spark.line.name)
    modules = {
        jar.coordinate.split(":")[1] for name in connectors_of(spark.line) for jar in locked[name]
    }
    assert modules & shipped == set()


def test_a_jar_in_two_groups_has_one_checksum() -> None:
    pins_by_name: dict[str, set[tuple[str, int]]] = {}
    for name in LOCKS:
        for jars in read_lock(name).values():
            for jar in jars:
                pins_by_name.setdefault(jar.file_name, set()).add((jar.sha256, jar.size))
    assert {name for name, pins in pins_by_name.items() if len(pins) > 1} == set()


@every_lock
def test_every_line_has_a_complete_checksum_and_a_size(name: str) -> None:
    line = re.compile(r"#.*|\w+ [\w.-]+:[\w.-]+:[\w.-]+ [0-9a-f]{64} [1-9][0-9]*")
    assert [text for text in text_of(name).splitlines() if not line.fullmatch(text)] == []


@every_lock
def test_the_lock_contains_no_url(name: str) -> None:
    # Not the bare `http`: a module of Jetty has it in its name.
    assert "//" not in text_of(name)
    assert "www." not in text_of(name)


@every_lock
def test_reading_and_rendering_reproduces_the_file(name: str) -> None:
    assert render_lock(jar for jars in read_lock(name).values() for jar in jars) == text_of(name)


def test_the_file_name_of_a_jar_is_unique() -> None:
    jar = LockedJar("kafka", "org.apache.kafka:kafka-clients:3.9.1", "", 0)
    assert jar.file_name == "org.apache.kafka_kafka-clients-3.9.1.jar"


def test_a_jar_is_pinned_by_the_content_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jar"
    path.write_bytes(b"content")
    expected = hashlib.sha256(b"content").hexdigest()
    assert LockedJar.of_file("g", "o:m:1", path) == LockedJar("g", "o:m:1", expected, 7)
    assert sha256_of(path) == expected


@pytest.mark.parametrize(
    "line", ["kafka a:b:1", "kafka a:b:1 0f 12 13", "kafka a:b:1 0f many", "kafka"]
)
def test_a_malformed_line_is_reported_with_its_number(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_with(f"# heading\n\nkafka a:c:1 0f 12\n{line}\n", tmp_path, monkeypatch)
    with pytest.raises(InternalError, match=r"4\.1_2\.13\.lock, line 4") as caught:
        read_lock("4.1_2.13")
    assert repr(line) in caught.value.message


def test_comments_and_empty_lines_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_with("# heading\n\nkafka a:c:1 0f 12\n", tmp_path, monkeypatch)
    assert read_lock("4.1_2.13") == {"kafka": (LockedJar("kafka", "a:c:1", "0f", 12),)}
