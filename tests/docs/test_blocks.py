"""Commands, settings and data in code blocks of the guides are valid; test_guides.py runs them."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from urllib.parse import urlsplit

import click
import pytest
import yaml
from tests.docs.blocks import ROOT, Block, Command, blocks, commands

from headwater.catalog.alerting.messages import Message
from headwater.catalog.alerting.state import Change
from headwater.cli.app import headwater
from headwater.cli.follow_order import _JUDGED, _VIOLATIONS
from headwater.cli.kafka_tools import TOOLS, kafka
from headwater.cli.run import run, take_restarts
from headwater.errors import SettingError
from headwater.jobs import JOBS
from headwater.join.metrics import JoinMetrics
from headwater.settings import load

# Scala and SQL are run by test_row_lineage_guide.py.
CHECKED = {
    *("console", "dockerfile", "diff", "json", "python", "scala", "sql", "text", "toml", "yaml"),
}
# Commands of others; what is after a job's file is checked.
OTHERS = {
    *("cd", "cp", "curl", "echo", "make", "pip", "python"),
    *("spark-class", "spark-shell", "spark-sql", "spark-submit"),
    *("helm", "kubectl"),
}
OF_OTHERS = [each for each in commands() if each.words and each.words[0] in OTHERS]
OWN = [each for each in commands() if each.words and each.words[0] not in OTHERS]


def test_every_block_has_a_language_that_is_checked() -> None:
    assert {str(each): each.language for each in blocks() if each.language not in CHECKED} == {}
    assert len(blocks()) > 90


@pytest.mark.parametrize("command", OWN, ids=str)
def test_a_command_has_the_subcommands_and_options_of_the_page(command: Command) -> None:
    assert command.words[0] == "headwater"
    parse(headwater, "headwater", command.words[1:])


def parse(
    command: click.Command, name: str, words: tuple[str, ...], parent: click.Context | None = None
) -> None:
    """Parse the words as the command line does, and run nothing."""
    if command is run:
        return parse_job(words[0], words[1:])
    if command is kafka:
        assert words[0] in TOOLS
        return None
    context = command.make_context(name, list(words), parent)
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        found, inner, rest = command.resolve_command(context, rest)
        assert inner is not None
        parse(inner, found or "", tuple(rest), context)
    return None


def parse_job(job: str, words: tuple[str, ...]) -> None:
    if job not in JOBS:
        assert (ROOT / job).is_file()
        return
    _, rest = take_restarts(words)
    importlib.import_module(JOBS[job]).main.make_context(job, list(rest))


@pytest.mark.parametrize("command", OF_OTHERS, ids=str)
def test_a_command_of_others_names_what_exists(command: Command) -> None:
    program, *words = command.words
    files = [word for word in words if word.endswith(".py")]
    if program == "curl":
        (url,) = [word for word in words if word.startswith("http")]
        path = urlsplit(url).path
        assert any(re.fullmatch(each, path) for each in routes()), path
    elif program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.M)
    elif program == "pip":
        extras = words[-1].partition("[")[2].rstrip("]").split(",")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(extras) <= set(project["optional-dependencies"])
    elif program == "cd":
        assert (ROOT / words[0]).is_dir()
    elif files and any(each.text.startswith(f"# {files[0]}\n") for each in blocks("python")):
        # The page has the file: test_row_lineage_guide.py and test_connect.py run it.
        return
    elif files and program == "spark-submit":
        job = files[0].rpartition("/")[2].removesuffix(".py")
        parse_job(job, tuple(words[words.index(files[0]) + 1 :]))
    elif files:
        assert (ROOT / "examples" / "neuronews" / files[0]).is_file()


def routes() -> list[str]:
    """Patterns of the service's paths."""
    paths = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())["paths"]
    return [re.sub(r"\{[^}]*\}", "[^/]+", path) for path in [*paths, "/metrics"]]


@pytest.mark.parametrize("command", [each for each in commands() if each.variables], ids=str)
def test_the_variables_of_a_command_are_settings(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown names and invalid values are errors of `load`."""
    for name, value in command.variables:
        monkeypatch.setenv(name, value)
    load()


def test_the_settings_of_a_page_are_compared_with_those_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without this, the two tests around it could not fail."""
    with pytest.raises(SettingError, match="no_such_setting"):
        load(jobs={"no_such_setting": "1"})
    monkeypatch.setenv("HEADWATER_JOBS__NO_SUCH_SETTING", "1")
    with pytest.raises(SettingError, match=r"(?i)no_such_setting"):
        load()


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_settings_in_a_file_are_valid(block: Block) -> None:
    load(**tomllib.loads(block.text))


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_valid(block: Block) -> None:
    """The contents of the rules for alerts are checked in test_alerts_guide.py."""
    assert set(yaml.safe_load(block.text)) <= {"alerts", "scrape_configs"}


def test_json_has_the_fields_of_the_message_and_of_the_facet() -> None:
    message, cost = (json.loads(each.text.replace(", …", "")) for each in blocks("json"))
    facets = ROOT / "src" / "headwater" / "catalog" / "facets"
    schema = json.loads((facets / "CostRunFacet.json").read_text())
    assert set(cost) <= properties(schema)
    assert set(message) == set(Message("id", Change.FIRED, "alert", "info", "now").payload())


def properties(schema: object) -> set[str]:
    """The names of all properties in a JSON schema."""
    if isinstance(schema, dict):
        names = set(schema.get("properties", ()))
        return names.union(*(properties(each) for each in schema.values()))
    if isinstance(schema, list):
        return set().union(*(properties(each) for each in schema))
    return set()


def test_metrics_in_the_blocks_exist() -> None:
    text = "".join(each.text for each in blocks("text", "console"))
    joins = {each.name for each in JoinMetrics("output", ()).registry.collect()}
    known = {_VIOLATIONS, _JUDGED} | joins | {f"{name}_total" for name in joins}
    named = set(re.findall(r"\bheadwater_[a-z_]+(?=\{)", text))
    assert len(named) > 5
    assert named <= known
