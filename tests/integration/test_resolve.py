"""Ranges that are resolved by replay: the parents of records after functions of several rows.

Each input has a number in its value, which the job writes into its output: the ledger to which the
resolved parents are compared.
"""

from __future__ import annotations

import json
import textwrap
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.stamped import delete_before
from tests.support import Headwater

from headwater import LineageJob, trace
from headwater.errors import UnknownJobError
from headwater.jobs import data_synchronization_job
from headwater.kafka import RecordProducer, read_topic
from headwater.model import Address, Record
from headwater.model.header import origin_of
from headwater.replay.transform import RowsFunction
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.tracing.node import Resolution, TraceNode

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def scored(rows: DataFrame) -> DataFrame:
    def score(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"value": "scored " + frame["n"]})

    return rows.selectExpr("cast(value AS string) AS n").mapInPandas(score, "value string")


def summed(rows: DataFrame) -> DataFrame:
    def total(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"value": [str(frame["n"].sum())]})

    numbers = rows.selectExpr("key", "cast(cast(value AS string) AS bigint) AS n")
    return numbers.groupBy("key").applyInPandas(total, "value string")


def named(rows: DataFrame) -> DataFrame:
    def name(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"value": [str(uuid.uuid4()) for _ in range(len(frame))]})

    return rows.select("value").mapInPandas(name, "value string")


class Pipeline:
    """A topic of numbers, a job that writes ranges, and its outputs."""

    def __init__(self, settings: Settings, spark: SparkSession, make_topic: TopicMaker) -> None:
        self.settings, self.spark = settings, spark
        self.source = make_topic("in", partitions=1)
        self.target = make_topic("out", partitions=1)

    def run(self, job: RowsFunction, numbers: Sequence[int], folder: Path) -> list[Record]:
        with RecordProducer(self.settings.kafka) as producer:
            for number in numbers:
                key = str(number.bit_length() % 3).encode()
                producer.send(self.source, str(number).encode(), key, partition=0)
        # Exactly-once delivery needs exact parents.
        lineage_job = LineageJob(
            "scorer",
            settings=self.settings,
            checkpoint=folder / "checkpoint",
            delivery="transactional",
        )
        rows = job(lineage_job.read(self.source))
        lineage_job.write(rows, self.target, trigger={"availableNow": True})
        records = list(read_topic(self.target, self.settings.kafka))
        for record in records:
            lineage = origin_of(record).lineage
            assert lineage is not None
            # Otherwise there is nothing to resolve.
            assert lineage.ranges
        return records

    def resolve(self, record: Record, transform: RowsFunction | None) -> TraceNode:
        return trace(
            record.address, self.settings, resolve=True, transform=transform, spark=self.spark
        )


@pytest.fixture
def pipeline(
    broker: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path
) -> Pipeline:
    settings = broker.model_copy(update={"home": tmp_path / "home"})
    return Pipeline(settings, spark, make_topic)


def resolution(node: TraceNode) -> Resolution:
    assert node.resolution is not None
    return node.resolution


def test_a_function_of_single_records_is_resolved_to_the_true_parent(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    records = pipeline.run(scored, range(100), tmp_path)
    for record in (records[0], records[57], records[99]):
        number = int((record.value or b"").removeprefix(b"scored "))
        found = pipeline.resolve(record, scored)
        true_parent = Address(pipeline.source, 0, number)
        assert resolution(found).state.value == "resolved"
        assert resolution(found).parents == (true_parent,)
        assert resolution(found).by_record
        assert [parent.address for parent in found.parents] == [true_parent]
    assert resolution(found).records == 100
    # Another transform does not make it, and is not believed.
    wrong = resolution(pipeline.resolve(records[0], lambda rows: rows.select("value", "lineage")))
    assert (wrong.state.value, wrong.parents) == ("not resolved", ())
    assert "does not make it" in (wrong.reason or "")


def test_equal_inputs_are_candidates_and_none_is_shown_as_a_parent(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    records = pipeline.run(scored, [7 if n in {3, 40} else n + 10 for n in range(60)], tmp_path)
    duplicate = next(record for record in records if record.value == b"scored 7")
    found = pipeline.resolve(duplicate, scored)
    assert resolution(found).state.value == "ambiguous"
    candidates = tuple(Address(pipeline.source, 0, offset) for offset in (3, 40))
    assert resolution(found).candidates == candidates
    assert (resolution(found).parents, found.parents) == ((), ())


def test_a_function_of_groups_is_resolved_to_the_records_of_the_group(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    # Each sum has one set of powers of two.
    numbers = [2**n for n in range(8)]
    records = pipeline.run(summed, numbers, tmp_path)
    record = max(records, key=lambda each: int(each.value or b"").bit_count())
    found = resolution(pipeline.resolve(record, summed))
    members = [n for n in range(8) if int(record.value or b"") & 2**n]
    assert len(members) == 3
    assert found.parents == tuple(Address(pipeline.source, 0, n) for n in members)
    assert not found.by_record


def test_a_function_with_other_results_in_each_run_is_not_resolved(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    (record, *_) = pipeline.run(named, range(5), tmp_path)
    found = resolution(pipeline.resolve(record, named))
    assert found.state.value == "not resolved"
    assert "not deterministic" in (found.reason or "")


def test_records_are_read_from_the_archive_and_a_gap_is_reported(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    settings, source = pipeline.settings, pipeline.source
    records = pipeline.run(scored, range(10), tmp_path)
    options = ["--available-now", "--quiet", "--input-topic", source]
    data_synchronization_job.main.main(options, standalone_mode=False, obj=settings)
    delete_before(source, 8, settings)
    found = pipeline.resolve(records[4], scored)
    assert resolution(found).parents == (Address(source, 0, 4),)
    assert found.parents[0].state.value == "archived"
    (tmp_path / "home/archive").rename(tmp_path / "elsewhere")
    gap = resolution(pipeline.resolve(records[4], scored))
    assert (gap.state.value, gap.parents) == ("not resolved", ())
    assert "neither archived nor in Kafka" in (gap.reason or "")


def test_limits_are_reported(pipeline: Pipeline, tmp_path: Path) -> None:
    (record, *_) = pipeline.run(scored, range(40), tmp_path)
    for name, limit, reason in (
        ("max_resolved_records", 5, "more than 5"),
        ("max_resolve_runs", 3, "the limit of 3 runs"),
    ):
        replay = pipeline.settings.replay.model_copy(update={name: limit})
        settings = pipeline.settings.model_copy(update={"replay": replay})
        found = resolution(
            trace(record.address, settings, resolve=True, transform=scored, spark=pipeline.spark)
        )
        assert (found.state.value, found.parents) == ("not resolved", ())
        assert reason in (found.reason or "")


def test_a_job_without_a_transform_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    (record, *_) = pipeline.run(scored, range(3), tmp_path)
    with pytest.raises(UnknownJobError, match="no transform of job 'scorer'") as error:
        pipeline.resolve(record, None)
    assert "HEADWATER_REPLAY__TRANSFORMS" in (error.value.hint or "")
    # Exact parents need neither a transform nor Spark.
    source = next(iter(read_topic(pipeline.source, pipeline.settings.kafka)))
    assert pipeline.resolve(source, None).resolution is None


TRANSFORM = """
    import pandas as pd

    def scored(rows):
        def score(frames):
            for frame in frames:
                yield pd.DataFrame({"value": "scored " + frame["n"]})

        return rows.selectExpr("cast(value AS string) AS n").mapInPandas(score, "value string")
"""


def test_the_command_shows_the_parent_or_why_not(
    pipeline: Pipeline, headwater: Headwater, tmp_path: Path
) -> None:
    records = pipeline.run(scored, [7, 8, 7], tmp_path)
    once = next(record for record in records if record.value == b"scored 8")
    script = tmp_path / "scorer.py"
    script.write_text(textwrap.dedent(TRANSFORM))
    refused = headwater("trace", str(once.address), "--resolve")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no transform of job 'scorer'" in refused.stderr
    command = ("trace", str(once.address), "--resolve", "--transform", f"{script}:scored")
    shown = headwater(*command)
    assert shown.returncode == 0, shown.stderr
    assert f"{pipeline.source}/0@1 makes it and no other record does" in shown.stdout
    twice = next(record for record in records if record.value == b"scored 7")
    registered = json.dumps({"scorer": f"{script}:scored"})
    options = ("--resolve", "--json")
    ambiguous = headwater(
        "trace", str(twice.address), *options, HEADWATER_REPLAY__TRANSFORMS=registered
    )
    assert ambiguous.returncode == 1, ambiguous.stderr
    content = json.loads(ambiguous.stdout)["resolution"]
    assert content["candidates"] == [f"{pipeline.source}/0@{offset}" for offset in (0, 2)]
