"""The code blocks of the guides run, in the order of their page, on real services."""

from __future__ import annotations

import builtins
import dis
import importlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.catalog_support import Catalog
from tests.docs.blocks import Block, Command, blocks, commands
from tests.docs.guide_preambles import PREAMBLES, REPLACED
from tests.support import environment

import headwater
from headwater.cli.app import headwater as command_line
from headwater.collector.listener import _trackers
from headwater.errors import HeadwaterError
from headwater.generator import Blemishes, generate
from headwater.job import LineageJob
from headwater.jobs import JOBS
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.openlineage import facets
from headwater.service import down, up
from headwater.settings import Settings, load
from headwater.testing import Ledger
from headwater.testing.fixtures import local_settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

VISITS = 240
PYTHON = ("python", "diff")
# These use names of others' jobs and tables.
OWN_HOME = {"docs/guides/existing-jobs.md", "docs/guides/quality.md"}
# Beginnings of commands that are parsed by test_blocks.py, and not run here.
NOT_RUN = {
    "alerts test": "sends a message to the reader's channel",
    "alerts watch": "runs until it is stopped",
    "bench": "takes minutes",
    "demo": "tests/e2e/test_demo.py runs the demos",
    "down": "test_readme.py runs it",
    "generate": "test_readme.py runs it",
    "jars copy": "the folder is that of an image; tests/unit/cli/test_jars_command.py copies jars",
    "keys revoke": "the id is that of the reader's key",
    "replay jobs/clean_visits.py:CLEAN": "the file is the reader's",
    "replay show": "the id is that of the reader's replay",
    "replay undo": "the id is that of the reader's replay",
    "replay verify": "the id is that of the reader's replay",
    "replay visits_converter": "tests/integration/test_replay.py runs replays",
    "probe": "checks a service on this machine: tests/integration/test_catalog_probes.py runs it",
    "run": "takes seconds; what other commands need is run first, and joins by their own tests",
    "serve": "runs until it is stopped",
    "trace visits-clean/0@3": "test_examples.py runs the example that writes it",
    "trace visits-scored/0@3 --resolve": "tests/integration/test_resolve.py runs such a job",
    "up": "test_readme.py runs it",
    "verify visits-batched --source visits --order --follow": "runs until it is stopped",
}
# Run first, the lists one after the other: other commands and programs read what these write.
FIRST = [
    ["visits_decorator_job", "fifo_orderer_bulk_send_job", "data_synchronization_job"],
    ["visits_reducer_job"],
    ["lineage_index_job"],
]
FIRST_OPTIONS = {
    "visits_decorator_job": ["--job-version", "v1.0.1"],
    "lineage_index_job": ["--topics", "visits,visits-decorated,visits-reduced"],
}


def is_not_run(command: Command) -> list[str]:
    text = " ".join(command.words[1:])
    return [begin for begin in NOT_RUN if f"{text} ".startswith(f"{begin} ")]


# Run by test_readme.py and test_row_lineage_guide.py.
ELSEWHERE = {"README.md", "docs/guides/row-lineage.md", "docs/concepts/row-lineage.md"}
COMMANDS = [
    each
    for each in commands()
    if each.words[:1] == ("headwater",) and each.block.page not in ELSEWHERE
]
PAGES = sorted(
    {each.page for each in blocks(*PYTHON)} - ELSEWHERE
    | {each.block.page for each in COMMANDS if not is_not_run(each)}
)


def run_command(command: Command) -> None:
    result = CliRunner().invoke(command_line, command.words[1:], env=dict(command.variables))
    error = result.exception
    code = error.exit_code if isinstance(error, HeadwaterError) else result.exit_code
    # 1: the check has found something, such as a missing record.
    found = command.words[1] in ("verify", "why-missing") and code == 1
    assert code == 0 or found, f"{command}: {code} {error!r}\n{result.output}"


@pytest.fixture(scope="module")
def world(
    catalog: Catalog, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """A separate broker with the topics of the guides, and the state of the shipped jobs."""
    folder = tmp_path_factory.mktemp("guides")
    settings = local_settings(folder / ".headwater")
    for _ in up(["kafka"], settings):
        pass
    try:
        with pytest.MonkeyPatch.context() as patch:
            addresses = {
                "MARQUEZ_URL": catalog.url,
                "HEADWATER_CATALOG__DATABASE_URL": catalog.database,
            }
            for name, value in environment(settings, **addresses).items():
                patch.setenv(name, value)
            patch.setattr(LineageJob, "_query", finite(LineageJob._query))
            fill(settings)
            for jobs in FIRST:
                with ThreadPoolExecutor() as threads:
                    list(threads.map(run_job, jobs))
            yield settings
    finally:
        down(settings, wipe=True)
    # What the pages leave in the session and in the process.
    spark.sql("DROP TABLE IF EXISTS demo.news.articles")
    for tracker in list(_trackers):
        spark.streams.removeListener(tracker)
        tracker.stop()
    facets._facet_functions.clear()


def run_job(name: str) -> None:
    """Run a shipped job, in several micro-batches."""
    options = [*FIRST_OPTIONS.get(name, ()), "--available-now", "--quiet"]
    settings = load(jobs={"max_records_per_batch": VISITS // 4})
    importlib.import_module(JOBS[name]).main.main(options, standalone_mode=False, obj=settings)


def finite(query: Any) -> Any:
    """Queries without a trigger end when all records are processed."""

    def with_trigger(job: Any, rows: Any, name: Any, checkpoint: Any, trigger: Any) -> Any:
        return query(job, rows, name, checkpoint, trigger or {"availableNow": True})

    return with_trigger


def fill(settings: Settings) -> None:
    orders = [
        {"order_id": f"o-{number}", "ordered_at": f"2024-01-01T09:{number:02}:00Z", "amount": 1.0}
        for number in range(20)
    ]
    values: dict[str, Iterable[tuple[bytes | None, bytes | None]]] = {
        "visits": list(generate("visits", VISITS, seed=7, blemishes=Blemishes(malformed=0.05))),
        "ads": list(generate("ads", 20, seed=7)),
        "orders": [(None, json.dumps(order).encode()) for order in orders],
        "orders-b": [(None, b"{}")],
        "payments": [(None, b'{"order_id": "o-1", "paid_at": "2024-01-01T09:20:00Z"}')],
        "texts": [(None, b"two words")],
        "the-output-topic": [],
        "visits_transformed": [],
    }
    for topic, records in values.items():
        create_topic(topic, 1, settings.kafka)
        with RecordProducer(settings.kafka) as producer:
            for key, value in records:
                producer.send(topic, value, key)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_from_top_to_bottom(
    page: str,
    world: Settings,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    if page in OWN_HOME:
        monkeypatch.setenv("HEADWATER_HOME", str(tmp_path / ".headwater"))
    (tmp_path / "articles.csv").write_text("id,title\na,b\n")
    names = run_python(page, world, {"spark": spark, "folder": str(tmp_path)})
    call_tests(names, world)
    for block in blocks("yaml"):
        if block.page == page:
            Path("headwater-alerts.yml").write_text(block.text)
    for command in COMMANDS:
        if command.block.page == page and not is_not_run(command):
            run_command(command)


def run_python(page: str, settings: Settings, names: dict[str, Any]) -> dict[str, Any]:
    """Run the blocks of a page in one module, and return its names."""
    names = {"__name__": "__main__", **names}
    sources = {str(each): source_of(each) for each in blocks(*PYTHON) if each.page == page}
    if "from headwater import" not in "".join(sources.values()):
        public = [name for name in headwater.__all__ if name != "Logic"]
        names |= {"F": F, **{name: getattr(headwater, name) for name in public}}
    places = {"{folder}": names["folder"], "{home}": str(settings.home_dir)}
    for number, (place, source) in enumerate(sources.items()):
        for mark, value in places.items():
            source = source.replace(mark, value)
        # The changes of a page are those of different jobs.
        if number == 0 or page.endswith("existing-jobs.md"):
            names["block"] = number
            exec(PREAMBLES.get(page, ""), names)  # noqa: S102 - ours, as the next ones
        exec(compile(source, place, "exec"), names)  # noqa: S102
        for query in names["spark"].streams.active:
            assert query.awaitTermination(60)
    assert undefined_names(names, page) == set()
    return names


def source_of(block: Block) -> str:
    """The Python of a block; of a change, the lines that it adds."""
    text = block.text
    if block.language == "diff":
        text = "".join(line[1:] for line in text.splitlines(True) if line.startswith("+"))
    for (page, original), replacement in REPLACED.items():
        if page == block.page:
            text = text.replace(original, replacement)
    return text


def undefined_names(names: Mapping[str, Any], page: str) -> set[str]:
    """Global names that functions of the page use, also functions that were not called."""
    functions = [each for each in names.values() if isinstance(each, FunctionType)]
    codes = [each.__code__ for each in functions if page in each.__code__.co_filename]
    used = {name for code in codes for name in global_names(code)}
    return used - set(names) - set(vars(builtins)) - {"run_pipeline"}


def global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL":
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from global_names(inner)


def call_tests(names: dict[str, Any], settings: Settings) -> None:
    """Call functions `test_…` with the fixtures that they name."""

    def make_topic(name: str) -> str:
        create_topic(f"ledger-{name}", 1, settings.kafka)
        return f"ledger-{name}"

    def run_pipeline(ledger: Ledger) -> None:
        with RecordProducer(settings.kafka) as producer:
            for record in read_topic("ledger-in", settings.kafka):
                producer.send("the-output-topic", record.value, record.key)

    names["run_pipeline"] = run_pipeline
    fixtures = {"broker": settings, "make_topic": make_topic}
    for name, function in list(names.items()):
        if name.startswith("test_"):
            function(**{each: fixtures[each] for each in inspect.signature(function).parameters})


def test_the_commands_that_are_not_run_are_in_a_page() -> None:
    assert set(NOT_RUN) == {begin for each in COMMANDS for begin in is_not_run(each)}
    every = "".join(block.text for block in blocks())
    assert [text for _, text in REPLACED if text not in every] == []
    assert set(PREAMBLES) <= set(PAGES)
