"""The commands of the README and of the first guide work, in order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.support import Headwater

from headwater.kafka import read_topic
from headwater.settings import Settings
from headwater.testing import assert_lineage
from headwater.testing.fixtures import local_settings

ROOT = Path(__file__).parents[2]


def commands_of(page: str) -> list[list[str]]:
    """Lines `$ headwater …` of the page's console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ headwater ")]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("page", ["README.md", "docs/guides/first-steps.md"])
def test_the_commands_of_a_page_work_in_order(
    headwater: Headwater, tmp_path: Path, page: str
) -> None:
    settings = local_settings(tmp_path / "home")
    commands = commands_of(page)
    assert len(commands) >= 5
    assert commands[-1] == ["down"]
    try:
        for command in commands:
            done = headwater(*command, settings=settings)
            assert done.returncode == 0, f"{command}: {done.stderr}"
    finally:
        stopped = headwater("down", "--wipe", settings=settings)
    assert stopped.returncode == 0


@pytest.mark.kafka
@pytest.mark.spark
def test_the_job_of_the_readme_runs_and_its_records_name_their_parents(
    broker: Settings, headwater: Headwater, tmp_path: Path
) -> None:
    _, snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    job = tmp_path / "own_job.py"
    job.write_text(snippet)
    headwater("generate", "visits", "--rows", "5")
    done = headwater("run", str(job))
    assert done.returncode == 0, done.stderr
    record = next(read_topic("visits-upper", broker.kafka))
    assert b"VISIT_ID" in (record.value or b"")
    assert_lineage(
        record,
        parents=[f"visits/{record.address.partition}@0"],
        job_name="visits_upper",
        job_version="1.2.0",
    )


def test_the_readme_names_the_two_commands_of_a_new_user() -> None:
    text = (ROOT / "README.md").read_text()
    assert "$ make demo" in text
    assert "$ make test" in text
