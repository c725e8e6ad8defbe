"""The Dockerfiles in deploy/: what a linter checks, and what it can't know."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.deploy.files import (
    DOCKERFILES,
    ROOT,
    arguments,
    environment_of,
    inserted,
    instructions,
    stages,
    tool,
)

from headwater import __version__
from headwater.cli.app import COMMANDS
from headwater.jvm.versions import DEFAULT_LINE, SPARK_LINES, user_groups
from headwater.settings import load

SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|API_?KEY|CREDENTIAL|DATABASE_URL", re.IGNORECASE)
both = pytest.mark.parametrize("image", list(DOCKERFILES))


def text_of(image: str) -> str:
    return DOCKERFILES[image].read_text()


def lint(folder: Path, text: str) -> str:
    file = folder / "Dockerfile"
    file.write_text(text)
    done = subprocess.run(
        [tool("hadolint"), "--no-color", str(file)], capture_output=True, text=True, check=False
    )
    return done.stdout


@both
def test_the_linter_finds_nothing(image: str, tmp_path: Path) -> None:
    assert lint(tmp_path, text_of(image)) == ""


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("USER 185:185", "USER root", "DL3002"),
        ("--no-install-recommends ", "", "DL3015"),
        ("    && rm -rf /var/lib/apt/lists/* \\\n", "", "DL3009"),
        ("WORKDIR /var/lib", "WORKDIR var/lib", "DL3000"),
    ],
)
def test_the_linter_finds_mistakes(old: str, new: str, rule: str, tmp_path: Path) -> None:
    text = text_of("job")
    assert old in text
    assert rule in lint(tmp_path, text.replace(old, new))


@both
def test_every_base_image_has_the_tag_of_a_version(image: str) -> None:
    text = text_of(image)
    bases = [inserted(stage[0].words[0], arguments(text)) for stage in stages(text)]
    for base in bases:
        name, _, tag = base.partition(":")
        assert re.match(r"\d+\.\d+\.\d+", tag), f"{name} has the tag {tag!r}"
    assert "@sha256:" in text, "no note on digests"


@both
def test_the_user_is_a_number_and_not_root(image: str) -> None:
    (user,) = [each.text for each in stages(text_of(image))[-1] if each.word == "USER"]
    assert int(user.partition(":")[0]) > 0


@both
def test_no_secret_is_an_argument_or_a_variable_of_the_image(image: str) -> None:
    names = [
        word.partition("=")[0]
        for each in instructions(text_of(image))
        if each.word in ("ARG", "ENV")
        for word in each.words
    ]
    assert names
    assert [name for name in names if SECRET.search(name)] == []


@both
def test_what_is_copied_exists_and_is_part_of_the_build_context(image: str) -> None:
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [
        source
        for each in instructions(text_of(image))
        if each.word == "COPY" and "--from=" not in each.text
        for source in each.words[:-1]
    ]
    for source in copied:
        assert any(fnmatch(source, pattern) for pattern in allowed), f"{source} is ignored"
        # Built by `make wheel`.
        assert source == "dist/headwater-*.whl" or (ROOT / source).is_file()
    names = [stage[0].words[-1] for stage in stages(text_of(image))]
    sources = re.findall(r"--from=(\S+)", text_of(image))
    assert set(sources) <= set(names)


@both
def test_packages_are_installed_with_hashes_or_from_the_wheel_alone(image: str) -> None:
    runs = [each.text for each in instructions(text_of(image)) if each.word == "RUN"]
    installs = [part for run in runs for part in run.split("&&") if "pip install" in part]
    assert len(installs) >= 2
    for install in installs:
        assert "--require-hashes" in install or "--no-deps --no-index" in install


@both
def test_variables_of_the_image_are_valid_settings(
    image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of(stages(text_of(image))[-1])
    own = {name: value for name, value in environment.items() if name.startswith("HEADWATER_")}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    assert str(load().home) == own["HEADWATER_HOME"] == "/var/lib/headwater"


def test_the_service_starts_and_is_checked_with_commands_that_exist() -> None:
    last = stages(text_of("service"))[-1]
    by_word = {each.word: each for each in last}
    assert by_word["ENTRYPOINT"].words == ["headwater"]
    assert by_word["CMD"].words[-1] in COMMANDS
    check = by_word["HEALTHCHECK"].text.partition("CMD ")[2]
    assert check == '["headwater", "probe", "live"]'
    assert "probe" in COMMANDS
    assert "java" not in " ".join(each.text for each in last).lower()


def test_the_job_image_has_a_supported_spark_and_known_jars() -> None:
    text = text_of("job")
    assert arguments(text)["SPARK_VERSION"] in {line.pyspark for line in SPARK_LINES}
    (jars,) = re.findall(r'^ARG JARS="(.+)"$', text, re.MULTILINE)
    assert set(jars.split()) <= set(user_groups(DEFAULT_LINE))
    assert "headwater jars copy /opt/jars ${JARS}" in text
    assert environment_of(stages(text)[-1])["HEADWATER_JVM__JARS_DIR"] == "/opt/spark/jars"


def test_the_jars_of_the_job_image_are_those_for_its_spark() -> None:
    fetching = stages(text_of("job"))[1]
    assert environment_of(fetching)["SPARK_HOME"] == "/opt/spark", "which decides on the jars"
    assert "--from=spark /opt/spark/jars /opt/spark/jars" in [
        each.text for each in fetching if each.word == "COPY"
    ]


@both
def test_the_build_commands_name_the_current_version(image: str) -> None:
    assert f"-t headwater-{image}:{__version__} ." in text_of(image)
