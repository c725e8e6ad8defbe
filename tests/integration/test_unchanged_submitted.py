"""Row lineage of plain jobs in Java, with typed Datasets, by `spark-submit`."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest
from tests.submitted import submit
from tests.unchanged import Records, true_parents

from headwater.jvm.compiler import compile_java
from headwater.jvm.jars import spark_jars
from headwater.kafka import read_topic
from headwater.model import Record
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(400)]

SOURCE = Path(__file__).parents[1] / "typed_job" / "TypedJob.java"
RECORDS = 60
EXACT, RANGES = ("map", "flatmap"), ("partitions", "groups", "state")


def compiled(folder: Path, settings: Settings) -> Path:
    compile_java([SOURCE], spark_jars(settings), folder / "classes", settings)
    jar = folder / "typed.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in sorted((folder / "classes").rglob("*.class")):
            archive.write(path, path.relative_to(folder / "classes"))
    return jar


def test_typed_functions_of_one_row_have_exact_parents_and_those_of_several_have_ranges(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    records, source = Records(broker), make_topic("in")
    records.fill(source, RECORDS)
    outputs = {name: make_topic(name) for name in (*EXACT, *RANGES)}
    jar, log = compiled(tmp_path, broker), tmp_path / "job.log"
    prefix = outputs["map"].removesuffix("map")
    job = ["--class", "TypedJob", str(jar), broker.bootstrap_servers, source, str(tmp_path / "c")]
    assert submit(broker, log, [*job, prefix]).wait(300) == 0, log.read_text()

    found = {name: list(read_topic(output, broker.kafka)) for name, output in outputs.items()}
    for name in EXACT:
        for record in found[name]:
            parents = records.parents(record)
            assert parents is not None, (name, record)
            assert parents.exact, (name, record)
            assert parents.numbers == true_parents(record), (name, record)
    for name in RANGES:
        for record in found[name]:
            parents = records.parents(record)
            assert parents is not None, (name, record)
            assert parents.ranges, (name, record)
            # State may have rows of earlier batches.
            assert parents.unknown == (name == "state"), (name, record)
            true = true_parents(record)
            assert all(records.is_within(number, parents) for number in true), (name, record)
    numbers = range(RECORDS)
    assert counted(found["map"]) == Counter(n for n in numbers if n % 3 != 0)
    assert counted(found["flatmap"]) == Counter({n: n % 3 for n in numbers if n % 3})
    for name in RANGES:
        assert counted(found[name]) == Counter(numbers), name


def counted(records: list[Record]) -> Counter[int]:
    return Counter(number for record in records for number in true_parents(record))
