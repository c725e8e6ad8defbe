"""`jars.lock`: complete, consistent, and without URLs."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path

import pytest

from headwater.errors import InternalError
from headwater.jvm.jars import LockedJar, read_lock, render_lock, sha256_of
from headwater.jvm.versions import GROUPS

TEXT = (resources.files("headwater.jvm") / "jars.lock").read_text(encoding="utf-8")

every_group = pytest.mark.parametrize("group", GROUPS)


def module_of(coordinate: str) -> str:
    return coordinate.rpartition(":")[0]


def lock_with(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "jars.lock").write_text(text)
    monkeypatch.setattr(resources, "files", lambda package: folder)


def test_the_lock_has_exactly_the_groups_of_the_table() -> None:
    assert list(read_lock()) == list(GROUPS)


@every_group
def test_every_coordinate_of_the_table_is_in_its_group(group: str) -> None:
    locked = {jar.coordinate for jar in read_lock()[group]}
    assert {*GROUPS[group].coordinates, *GROUPS[group].intransitive} <= locked


@every_group
def test_no_two_jars_of_a_group_are_the_same_module(group: str) -> None:
    modules = [module_of(jar.coordinate) for jar in read_lock()[group]]
    assert sorted(modules) == sorted(set(modules))


@every_group
def test_excluded_modules_are_not_locked(group: str) -> None:
    # An excluded module may still be listed as intransitive, in another version.
    wanted = {module_of(coordinate) for coordinate in GROUPS[group].intransitive}
    locked = {module_of(jar.coordinate) for jar in read_lock()[group]}
    assert locked.isdisjoint(set(GROUPS[group].excludes) - wanted)


@every_group
def test_the_jars_of_a_group_are_sorted(group: str) -> None:
    coordinates = [jar.coordinate for jar in read_lock()[group]]
    assert coordinates == sorted(coordinates)


def test_a_jar_in_two_groups_has_one_checksum() -> None:
    pins_by_name: dict[str, set[tuple[str, int]]] = {}
    for jars in read_lock().values():
        for jar in jars:
            pins_by_name.setdefault(jar.file_name, set()).add((jar.sha256, jar.size))
    assert {name for name, pins in pins_by_name.items() if len(pins) > 1} == set()


def test_every_line_has_a_complete_checksum_and_a_size() -> None:
    line = re.compile(r"#.*|\w+ [\w.-]+:[\w.-]+:[\w.-]+ [0-9a-f]{64} [1-9][0-9]*")
    assert [text for text in TEXT.splitlines() if not line.fullmatch(text)] == []


def test_the_lock_contains_no_url() -> None:
    # Not the bare `http`: a module of Jetty has it in its name.
    assert "//" not in TEXT
    assert "www." not in TEXT


def test_reading_and_rendering_reproduces_the_file() -> None:
    assert render_lock(jar for jars in read_lock().values() for jar in jars) == TEXT


def test_a_jar_has_the_file_name_of_ivy() -> None:
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
    with pytest.raises(InternalError, match=r"jars\.lock, line 4") as caught:
        read_lock()
    assert repr(line) in caught.value.message


def test_comments_and_empty_lines_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_with("# heading\n\nkafka a:c:1 0f 12\n", tmp_path, monkeypatch)
    assert read_lock() == {"kafka": (LockedJar("kafka", "a:c:1", "0f", 12),)}
