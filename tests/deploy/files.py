"""Reads the files in deploy/: instructions of Dockerfiles, and manifests as Helm renders them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = {"service": DEPLOY / "service/Dockerfile", "job": DEPLOY / "job/Dockerfile"}
CHART = DEPLOY / "chart"


@dataclass(frozen=True)
class Instruction:
    """One instruction, without comments and line continuations."""

    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """The values: of a JSON array, or as a shell splits them."""
        if self.text.startswith("["):
            return [str(each) for each in yaml.safe_load(self.text)]
        return shlex.split(self.text)


def instructions(text: str) -> list[Instruction]:
    """All instructions of a Dockerfile."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = re.findall(r"^([A-Z]+) +(.+)$", joined, re.MULTILINE)
    return [Instruction(word, " ".join(rest.split())) for word, rest in found]


def stages(text: str) -> list[list[Instruction]]:
    """The instructions of each stage; each begins with its FROM."""
    result: list[list[Instruction]] = []
    for each in instructions(text):
        if each.word == "FROM":
            result.append([])
        if result:
            result[-1].append(each)
    return result


def arguments(text: str) -> dict[str, str]:
    """The ARGs before the first FROM, with their defaults inserted into each other."""
    values: dict[str, str] = {}
    for each in instructions(text):
        if each.word == "FROM":
            break
        name, _, value = each.text.partition("=")
        values[name] = inserted(value, values)
    return values


def inserted(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def environment_of(stage: list[Instruction]) -> dict[str, str]:
    """The ENV of a stage."""
    pairs = [word.partition("=") for each in stage if each.word == "ENV" for word in each.words]
    return {name: value for name, _, value in pairs}


def tool(name: str) -> str:
    """A tool of the development requirements, or of this machine; skips without it."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: its package has no binary for this platform")
    return found


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("helm"), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def rendered(folder: Path, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The manifests of the chart with these values."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    done = helm("template", "demo", str(CHART), "--namespace", "lineage", "--values", str(file))
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found
