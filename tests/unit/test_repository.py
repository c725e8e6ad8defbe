"""Rules for every file of the repository."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Joined here, so that this file does not contain them.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("search", "maven", "org"),
        ("oss", "sonatype", "org"),
        ("repos", "spark-packages", "org"),
        ("packages", "confluent", "io"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("hub", "docker", "com"),
        ("ghcr", "io"),
    )
]
# A path below a home directory; not `/root` or `~` alone.
HOME_DIRECTORY = re.compile(r"(?<![\w.])/(?:home|Users|root)/[\w.]|[A-Z]:\\Users\\")
MAX_LINES = 400


def files() -> list[Path]:
    """The files of the repository, including untracked ones; without git, those of a checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        paths = [*ROOT.glob("*"), *(ROOT / "src").rglob("*"), *(ROOT / "tests").rglob("*")]
        paths = [path for path in paths if "__pycache__" not in path.parts]
    else:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return sorted(path for path in paths if path.is_file())


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The text files, by their path in the repository."""
    contents = {}
    for path in files():
        content = path.read_bytes()
        if b"\0" not in content:
            contents[path.relative_to(ROOT).as_posix()] = content.decode("utf-8")
    return contents


def offenders(texts: dict[str, str], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts.items()
        for match in pattern.finditer(text)
    ]


def test_the_files_of_the_repository_are_found(texts: dict[str, str]) -> None:
    assert {"pyproject.toml", "src/headwater/errors.py", "requirements.lock"} <= set(texts)


def test_no_file_names_a_package_registry(texts: dict[str, str]) -> None:
    # Downloads use the configured indexes of pip and Ivy, which may be mirrors.
    assert offenders(texts, re.compile("|".join(map(re.escape, REGISTRIES)))) == []


def test_no_file_contains_the_path_of_a_home_directory(texts: dict[str, str]) -> None:
    assert offenders(texts, HOME_DIRECTORY) == []


@pytest.mark.parametrize("path", ["/home" + "/me/x", "a /root" + "/.cache", "C:" + r"\Users\me"])
def test_the_path_of_a_home_directory_is_detected(path: str) -> None:
    assert HOME_DIRECTORY.search(path)


@pytest.mark.parametrize("path", ["kafka/home/x", "Contents/Home/", "(/root, a checkout)", "~/x"])
def test_other_paths_are_not_detected(path: str) -> None:
    assert not HOME_DIRECTORY.search(path)


def test_lock_files_contain_no_url(texts: dict[str, str]) -> None:
    locks = {name: text for name, text in texts.items() if name.endswith(".lock")}
    assert {"requirements.lock", "src/headwater/jvm/jars.lock"} <= set(locks)
    assert offenders(locks, re.compile(r"\S*://\S*|--(?:extra-)?index-url\S*")) == []


def test_every_python_requirement_is_pinned_with_a_hash(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        if name.startswith("requirements") and name.endswith(".lock"):
            # One requirement per paragraph: its first line, then its hashes.
            for requirement in re.split(r"\n(?=[^\s#])", text.strip()):
                assert re.match(r"[\w.\[\],-]+==\S+", requirement), f"{name}: {requirement}"
                assert "--hash=sha256:" in requirement, f"{name}: {requirement}"


def test_no_module_is_too_long(texts: dict[str, str]) -> None:
    sizes = {name: len(text.splitlines()) for name, text in texts.items() if name[:4] == "src/"}
    code = {name: size for name, size in sizes.items() if name.endswith(".py")}
    assert {name: size for name, size in code.items() if size >= MAX_LINES} == {}


def test_the_names_of_test_files_are_unique(
    texts: dict[str, str],
) -> None:
    tests = [Path(name).name for name in texts if name.startswith("tests/")]
    modules = Counter(name for name in tests if name.startswith("test_") and name.endswith(".py"))
    assert [name for name, count in modules.items() if count > 1] == []
    assert "__init__.py" not in tests


def test_text_files_end_with_one_newline_and_have_no_carriage_return(
    texts: dict[str, str],
) -> None:
    wrong = [
        name
        for name, text in texts.items()
        if text and ("\r" in text or not text.endswith("\n") or text.endswith("\n\n"))
    ]
    assert wrong == []
