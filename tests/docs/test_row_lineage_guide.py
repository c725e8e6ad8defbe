"""The guide for row lineage in an existing job: its job, its SQL and its commands, as they are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.connect import SERVER
from tests.submitted import EXTENSION
from tests.support import environment, java_of_spark

from headwater.jvm.installed import SHORT_LIVED
from headwater.kafka import read_topic
from headwater.settings import Settings
from headwater.spark.row_lineage_settings import ROW_LINEAGE_SETTINGS
from headwater.tracing import trace

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "row-lineage.md").read_text()
CONCEPT = (ROOT / "docs" / "concepts" / "row-lineage.md").read_text()
BIN = Path(sys.executable).parent
# Small and quick: nothing of this concerns lineage.
DEFAULTS = """
spark.master local[1]
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.sql.shuffle.partitions 2
spark.databricks.delta.snapshotPartitions 2
"""


def blocks(kind: str, text: str = GUIDE) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


@dataclass(frozen=True)
class Shell:
    """Runs the blocks of the guide in a folder, with the broker of the test."""

    folder: Path
    settings: Settings

    def write(self, block: str) -> None:
        """A file whose name is in its first line."""
        name = block.split("\n", 1)[0].split()[1]
        text = block.replace("localhost:9092", self.settings.bootstrap_servers)
        (self.folder / name).write_text(text)

    def run(self, block: str, **variables: str) -> str:
        commands = re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        (conf / "spark-defaults.conf").write_text(DEFAULTS)
        variables = {
            "PATH": f"{BIN}:{environment(self.settings)['PATH']}",
            "SPARK_CONF_DIR": str(conf),
            "SPARK_SUBMIT_OPTS": SHORT_LIVED,
            **java_of_spark(self.settings),
            **variables,
        }
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-ec", commands],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=self.folder,
            env=environment(self.settings, **variables),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def shell(headwater_settings: Settings, tmp_path: Path) -> Shell:
    return Shell(tmp_path, headwater_settings)


def pages_of_visits(settings: Settings) -> dict[bytes | None, set[str]]:
    """The addresses of the visits of each page."""
    pages: dict[bytes | None, set[str]] = defaultdict(set)
    for record in read_topic("visits", settings.kafka):
        try:
            page = json.loads(record.value or b"").get("page")
        except ValueError:
            page = None
        pages[page.encode() if page else None].add(str(record.address))
    return pages


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_job_of_the_guide_has_exact_parents_with_the_options_of_the_guide(
    broker: Settings, shell: Shell
) -> None:
    job, commands = blocks("python")[0], blocks("console")[0]
    shell.write(job)
    output = shell.run(commands)
    assert "page_counts v1.0.0, batch 0" in output
    pages = pages_of_visits(broker)
    for record in read_topic("page-counts", broker.kafka):
        parents = {str(each.address) for each in trace(record.address, broker, max_depth=1).parents}
        assert parents == pages[record.key]
        assert record.value == str(len(parents)).encode()


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_scala_of_the_guide_has_exact_parents(broker: Settings, shell: Shell) -> None:
    (program,) = blocks("scala")
    (command,) = [each for each in blocks("console") if "spark-shell" in each]
    shell.write(program)
    shell.run("headwater generate visits --rows 100\nheadwater topics create safari-visits")
    shell.run(command)
    visits = {str(each.address): each.value for each in read_topic("visits", broker.kafka)}
    records = list(read_topic("safari-visits", broker.kafka))
    assert len(records) == sum(b"Safari" in (value or b"") for value in visits.values())
    assert 0 < len(records) < len(visits)
    for record in records:
        (parent,) = trace(record.address, broker, max_depth=1).parents
        assert visits[str(parent.address)] == record.value


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_job_without_an_extension_has_exact_parents(broker: Settings, shell: Shell) -> None:
    job, changed = blocks("python")
    before = job.partition("query = (")[0].replace("page_counts.py", "other_counts.py")
    # Else it would run until it is stopped.
    ending = changed.replace(")\n", ', trigger={"availableNow": True})\n')
    assert ending != changed
    shell.write((before + ending).replace("page-counts", "other-counts"))
    shell.run(
        "headwater generate visits --rows 100\n"
        'spark-submit --jars "$(headwater jars path kafka)" other_counts.py'
    )
    pages = pages_of_visits(broker)
    records = list(read_topic("other-counts", broker.kafka))
    assert {record.key for record in records} == set(pages)
    for record in records:
        parents = {str(each.address) for each in trace(record.address, broker, max_depth=1).parents}
        assert parents == pages[record.key]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_sql_of_the_guide_fills_the_column_of_a_table(broker: Settings, shell: Shell) -> None:
    sql = blocks("sql")[0]
    command = next(each for each in blocks("console") if "spark-sql" in each)
    shell.write(sql)
    shell.run("headwater generate visits --rows 100")
    rows = [line.split("\t") for line in shell.run(command).splitlines() if line.count("\t") == 2]
    pages = pages_of_visits(broker)
    found = {
        None if page == "NULL" else page.encode(): (int(visits), int(parents))
        for page, visits, parents in rows
    }
    assert found == {page: (len(all_), len(all_)) for page, all_ in pages.items()}


@pytest.mark.spark
def test_the_commands_for_a_cluster_copy_the_jar_and_add_the_extension(shell: Shell) -> None:
    home = shell.folder / "spark"
    for name in ("jars", "conf"):
        (home / name).mkdir(parents=True)
    # By which the version of Spark is found.
    core = home / "jars" / "spark-core_2.13-4.1.0.jar"
    core.touch()
    command = next(each for each in blocks("console") if "spark-defaults.conf" in each)
    shell.run(command, SPARK_HOME=str(home))
    (copied,) = set((home / "jars").iterdir()) - {core}
    assert copied.suffix == ".jar"
    line = (home / "conf" / "spark-defaults.conf").read_text()
    assert line == "spark.sql.extensions dev.headwater.RowLineageExtension\n"


def test_the_command_for_a_connect_server_starts_what_the_tests_start() -> None:
    (command,) = [each for each in blocks("console", CONCEPT) if "SPARK_REMOTE" in each]
    (extension,) = EXTENSION.items()
    assert f"--class {SERVER}\n" in command
    assert f"--conf {'='.join(extension)} " in command
    assert '--jars "$(headwater jars path kafka)"' in command


def test_the_configuration_of_a_cluster_has_the_extension_and_known_settings() -> None:
    (configuration,) = blocks("text")
    lines = dict(line.split(" ") for line in configuration.splitlines())
    (extension,) = EXTENSION.items()
    assert extension in lines.items()
    known = {each.name: each.values for each in ROW_LINEAGE_SETTINGS}
    others = {name: value for name, value in lines.items() if name != extension[0]}
    assert all(value in known[name] for name, value in others.items()), others


def test_the_log_lines_are_those_of_the_code() -> None:
    source = ROOT / "java" / "src" / "main" / "java" / "dev" / "headwater" / "rowlineage"
    status = (source / "RowLineageStatus.java").read_text()
    formats = re.findall(r'LOG\.\w+\(\s*"(.*?)"', status)
    patterns = [re.escape(each).replace(r"\{\}", ".+") for each in formats]
    (lines,) = blocks("text", CONCEPT)
    for line in lines.splitlines():
        assert any(re.fullmatch(each, line) for each in patterns), line


def test_the_table_of_settings_has_all_with_their_defaults() -> None:
    setting = r"^\| `(spark\.headwater\.lineage\.\w+)` \| (.*?) ?\|"
    rows = re.findall(setting, CONCEPT, re.MULTILINE)
    found = {name: default.strip("`") for name, default in rows}
    assert found == {each.name: each.default for each in ROW_LINEAGE_SETTINGS}


def test_the_readme_begins_with_the_job_and_the_command_of_the_guide() -> None:
    readme = (ROOT / "README.md").read_text()
    assert blocks("python", readme)[0] == blocks("python")[0]
    assert blocks("console", readme)[0] in blocks("console")[0]
