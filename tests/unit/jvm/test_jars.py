"""The jar cache: accepts only pinned jars, and finds damaged ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import DownloadError, InputError, InternalError, NotInstalledError
from headwater.jvm import jars
from headwater.jvm.installed import line_named
from headwater.jvm.ivy import JarCount
from headwater.jvm.jars import LockedJar, corrupt_jars, ensure_jars, locked_jars, missing_jars
from headwater.settings import Settings, load

CONTENTS = {
    "org.example:first:1.0": b"the first jar",
    "org.example:second:2.0": b"the second jar",
    "org.example:third:3.0": b"the third jar",
}


def pinned(group: str, coordinate: str) -> LockedJar:
    content = CONTENTS[coordinate]
    return LockedJar(group, coordinate, hashlib.sha256(content).hexdigest(), len(content))


FIRST, SECOND = (pinned("delta", name) for name in list(CONTENTS)[:2])
THIRD = pinned("iceberg", "org.example:third:3.0")


@pytest.fixture(autouse=True)
def _a_small_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = {"delta": (FIRST, SECOND), "iceberg": (THIRD,)}
    monkeypatch.setattr(jars, "read_lock", lambda name: locked)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(jvm={"jars_dir": tmp_path / "cache" / "jars"})


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """A resolver with the right jars; returns the requested coordinates."""
    return resolver_with(CONTENTS, monkeypatch)


def resolver_with(
    contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> list[Sequence[str]]:
    """Replaces Ivy, to simulate a repository with modified files."""
    requested: list[Sequence[str]] = []

    def resolve(
        coordinates: Sequence[str],
        folder: Path,
        settings: Settings,
        *,
        transitive: bool,
        progress: JarCount,
    ) -> dict[str, Path]:
        assert not transitive, "the lock names every jar"
        requested.append(coordinates)
        fetched: dict[str, Path] = {}
        for coordinate in coordinates:
            if coordinate in contents:
                fetched[coordinate] = folder / f"{len(fetched)}.jar"
                fetched[coordinate].write_bytes(contents[coordinate])
                progress(1, len(coordinates))
        return fetched

    monkeypatch.setattr(jars, "resolve", resolve)
    return requested


def cache(jar: LockedJar, settings: Settings, content: bytes | None = None) -> Path:
    path = settings.jars_dir / jar.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CONTENTS[jar.coordinate] if content is None else content)
    return path


def cached(settings: Settings) -> list[str]:
    """Everything in the cache, including staging folders."""
    return sorted(path.name for path in settings.jars_dir.rglob("*"))


def test_all_jars_are_missing_without_a_cache(settings: Settings) -> None:
    assert missing_jars("delta", settings) == [FIRST, SECOND]
    assert corrupt_jars("delta", settings) == []
    assert not settings.jars_dir.exists()


def test_a_complete_jar_is_neither_missing_nor_corrupt(settings: Settings) -> None:
    cache(FIRST, settings)
    assert missing_jars("delta", settings) == [SECOND]
    assert corrupt_jars("delta", settings) == []


@pytest.mark.parametrize("content", [b"", b"the first", b"the first jar, and more"])
def test_a_jar_of_another_size_counts_as_missing_and_as_corrupt(
    content: bytes, settings: Settings
) -> None:
    cache(FIRST, settings, content)
    assert FIRST in missing_jars("delta", settings)
    assert corrupt_jars("delta", settings) == [FIRST]


def test_a_modified_jar_of_the_same_size_is_corrupt(settings: Settings) -> None:
    cache(FIRST, settings, b"the worst jar")
    cache(SECOND, settings)
    assert missing_jars("delta", settings) == []
    assert corrupt_jars("delta", settings) == [FIRST]


def test_a_folder_with_the_name_of_a_jar_counts_as_missing(settings: Settings) -> None:
    (settings.jars_dir / FIRST.file_name).mkdir(parents=True)
    assert FIRST in missing_jars("delta", settings)


def test_cached_jars_are_not_fetched_again(
    settings: Settings, resolved: list[Sequence[str]]
) -> None:
    expected = [cache(jar, settings) for jar in (FIRST, SECOND)]
    assert ensure_jars(["delta"], settings) == expected
    assert resolved == []


def test_missing_jars_are_fetched_by_their_locked_coordinates(
    settings: Settings, resolved: list[Sequence[str]]
) -> None:
    paths = ensure_jars(["iceberg", "delta"], settings)
    assert paths == [settings.jars_dir / jar.file_name for jar in (THIRD, FIRST, SECOND)]
    assert [path.read_bytes() for path in paths] == [
        CONTENTS[jar.coordinate] for jar in (THIRD, FIRST, SECOND)
    ]
    assert resolved == [[THIRD.coordinate], [FIRST.coordinate, SECOND.coordinate]]


def test_only_jars_remain_in_the_cache(settings: Settings, resolved: list[Sequence[str]]) -> None:
    ensure_jars(["delta"], settings)
    assert cached(settings) == [FIRST.file_name, SECOND.file_name]


def test_an_incomplete_jar_is_replaced(settings: Settings, resolved: list[Sequence[str]]) -> None:
    path = cache(FIRST, settings, b"the fi")
    ensure_jars(["delta"], settings)
    assert path.read_bytes() == CONTENTS[FIRST.coordinate]


def test_progress_is_reported_for_each_group_that_is_fetched(
    settings: Settings, resolved: list[Sequence[str]]
) -> None:
    cache(THIRD, settings)
    reported: list[tuple[str, int, int]] = []
    ensure_jars(["delta", "iceberg"], settings, lambda *step: reported.append(step))
    assert reported == [("fetching jars: delta", done, 2) for done in (0, 1, 1)]


@pytest.mark.parametrize("wrong", [FIRST, SECOND])
def test_a_jar_that_is_not_the_pinned_one_is_refused_with_both_checksums(
    wrong: LockedJar, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = b"from a compromised mirror"
    resolver_with({**CONTENTS, wrong.coordinate: changed}, monkeypatch)
    with pytest.raises(DownloadError) as caught:
        ensure_jars(["delta"], settings)
    error = caught.value
    assert wrong.coordinate in error.message
    assert wrong.sha256 in error.message
    assert hashlib.sha256(changed).hexdigest() in error.message
    assert error.attributes == {"coordinate": wrong.coordinate}
    assert cached(settings) == []


def test_a_refused_jar_does_not_change_the_cached_ones(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = cache(FIRST, settings)
    resolver_with({**CONTENTS, SECOND.coordinate: b"changed"}, monkeypatch)
    with pytest.raises(DownloadError):
        ensure_jars(["delta"], settings)
    assert cached(settings) == [kept.name]
    assert kept.read_bytes() == CONTENTS[FIRST.coordinate]


def test_the_error_names_a_jar_that_the_resolver_does_not_return(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver_with({FIRST.coordinate: CONTENTS[FIRST.coordinate]}, monkeypatch)
    with pytest.raises(DownloadError, match=r"returned no org\.example:second:2\.0"):
        ensure_jars(["delta"], settings)
    assert cached(settings) == []


def test_a_failed_download_leaves_nothing_in_the_cache(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(coordinates: Sequence[str], folder: Path, *_: Any, **__: Any) -> dict[str, Path]:
        (folder / "half.jar").write_bytes(b"half")
        raise DownloadError("no route")

    monkeypatch.setattr(jars, "resolve", resolve)
    with pytest.raises(DownloadError, match="no route"):
        ensure_jars(["delta"], settings)
    assert cached(settings) == []


def test_an_unknown_group_is_refused(settings: Settings) -> None:
    with pytest.raises(InputError, match="kafak"):
        ensure_jars(["kafak"], settings)


def test_a_group_that_is_missing_in_the_lock_is_an_internal_error(settings: Settings) -> None:
    with pytest.raises(InternalError, match="make lock"):
        locked_jars("broker", settings)


def test_a_folder_that_cannot_be_written_is_reported_with_what_an_image_lacks(
    settings: Settings, tmp_path: Path
) -> None:
    # A file in its place: root can write to read-only folders.
    (tmp_path / "cache").touch()
    expected = r"jars of the group 'delta' are missing, and .*/jars can't be written"
    with pytest.raises(DownloadError, match=expected) as caught:
        ensure_jars(["delta"], settings)
    assert "`headwater jars copy`" in (caught.value.hint or "")


def test_a_connector_that_a_line_does_not_have_is_named_with_the_reason(
    settings: Settings,
) -> None:
    with pytest.raises(NotInstalledError) as caught:
        ensure_jars(["iceberg"], settings, line=line_named("4.2"))
    assert caught.value.message == (
        "the connector 'iceberg' is missing for Spark 4.2: "
        "no Iceberg runtime for Spark 4.2 can be fetched from the registry"
    )
