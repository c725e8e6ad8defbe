"""The public Python API: its names, and that the docs and examples use nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
import headwater.quality
import headwater.testing

ROOT = Path(__file__).parents[2]
# A change of this list is a change of the public API: write it into CHANGELOG.md.
NAMES = """
    Address CostMeter DeadLetterFilter Expectation HeadwaterError JobOutput JoinSide LineageIndex
    LineageJob Logic OrderCheck Quality QueryHandle RecordReader Settings Transform WatermarkJoin
    __version__ add_lineage_metadata create_spark_session_with_lineage decode_lineage delta_table
    finish_lineage iceberg_table impact join_lineage lineage_facet lineage_of list_dead_letters
    load_settings merge_lineage parent_addresses parse_json redrive spark_session_with_lineage trace
    track_streaming verify why_missing with_row_lineage
""".split()
QUALITY = """
    Expectation Quality Report enforced in_range in_set matches not_null read_once satisfies
""".split()
TESTING = """
    Ledger LedgerReport LedgerWatch RecordProducer TcpProxy assert_lineage free_port read_topic
""".split()
# The jobs of the example are thin wrappers of the shipped ones.
INTERNAL = {
    "examples/neuronews/jobs/spark/openlineage_config.py": "headwater.jobs",
    "examples/neuronews/jobs/spark/batch_write_raw_with_lineage.py": "headwater.jobs",
    "examples/neuronews/jobs/spark/stream_write_raw_with_lineage.py": "headwater.jobs",
    "examples/neuronews/demo_openlineage_marquez.py": "headwater.cli",
}
_IMPORT = re.compile(r"^\s*(?:from|import) (headwater[\w.]*)(?: import ([\w, ()\n]+?)$)?", re.M)


def test_the_public_names_are_these() -> None:
    assert sorted(headwater.__all__) == sorted(NAMES)
    assert sorted(headwater.quality.__all__) == sorted(QUALITY)
    assert sorted(headwater.testing.__all__) == sorted(TESTING)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Logic"])
def test_a_public_name_can_be_imported_and_is_documented(name: str) -> None:
    value = getattr(headwater, name)
    assert name in dir(headwater)
    assert isinstance(value, str) or value.__doc__


def test_importing_the_package_imports_neither_spark_nor_kafka() -> None:
    check = "import sys, headwater; print({'pyspark', 'confluent_kafka'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def imports() -> Iterator[tuple[str, str]]:
    """The imports of Headwater in code blocks of the docs and in the examples."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        if "decisions" not in page.parts:
            for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
                for match in _IMPORT.finditer(block):
                    yield str(page.relative_to(ROOT)), match[1]
    for example in (ROOT / "examples").rglob("*.py"):
        for match in _IMPORT.finditer(example.read_text()):
            yield str(example.relative_to(ROOT)), match[1]


def test_docs_and_examples_import_public_modules_only() -> None:
    found = list(imports())
    assert len(found) > 20
    public = ("headwater", "headwater.quality", "headwater.testing", "headwater.testing.fixtures")
    internal = [
        f"{place}: {module}"
        for place, module in found
        if module not in public and not module.startswith(INTERNAL.get(place, "-"))
    ]
    assert internal == []
