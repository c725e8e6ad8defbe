"""Rules for every file of the repository."""

from __future__ import annotations

import ast
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
# Where Headwater starts or awaits queries. Its jobs do so through the query runner, which handles
# signals, errors and checkpoints.
QUERY_STARTS = (
    "src/headwater/spark/query_runner.py",
    "src/headwater/delivery/sink.py",
    "src/headwater/spark/cds.py",
    "src/headwater/bench/",
    "src/headwater/demo/plain_jobs/",
)
MAX_LINES = 400
MAX_TEST_LINES = 60


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
    assert {"requirements.lock", "src/headwater/jvm/locks/common.lock"} <= set(locks)
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


def parsed(folder: str) -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def test_public_class_names_are_unique() -> None:
    names = Counter(
        node.name
        for _, module in parsed("src/headwater")
        for node in module.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_queries_are_started_and_awaited_by_the_query_runner_only() -> None:
    found = {
        name
        for name, module in parsed("src/headwater")
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and node.attr in ("writeStream", "awaitTermination")
    }
    assert [name for name in sorted(found) if not name.startswith(QUERY_STARTS)] == []
    assert [start for start in QUERY_STARTS if not any(n.startswith(start) for n in found)] == []


def test_no_test_is_longer_than_sixty_lines() -> None:
    too_long = [
        f"{name}: {node.name}"
        for name, module in parsed("tests")
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and (node.end_lineno or 0) - node.lineno >= MAX_TEST_LINES
    ]
    assert too_long == []


def test_unit_tests_are_in_folders_named_after_the_packages() -> None:
    package = ROOT / "src" / "headwater"
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (package / folder).is_dir()] == []


def test_the_architecture_fits_on_a_page_and_names_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 100
    named = re.findall(r"`((?:[a-z_]+/)+[A-Za-z_]+\.(?:py|java|lock))`", text)
    folders = {".java": ROOT / "java/src/main/java/dev/headwater"}
    python = ROOT / "src/headwater"
    paths = [
        ROOT / name if name.startswith("java/") else folders.get(Path(name).suffix, python) / name
        for name in named
    ]
    assert {path.suffix for path in paths} == {".py", ".java", ".lock"}
    assert [str(path) for path in paths if not path.is_file()] == []
