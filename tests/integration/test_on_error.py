"""`on_error="dead-letter"`: a record for which the code of the job raises an error becomes a dead
letter, and the others are written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import LineageJob, redrive, verify, why_missing
from headwater.errors import ExpectationFailedError, InputError, QueryFailedError
from headwater.kafka import RecordProducer, read_topic
from headwater.model.dead_letter import DeadLetter, read_letter
from headwater.quality import satisfies
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.storage.checkpoint import read_progress
from headwater.storage.failed_records import read_failed_records
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BAD = {5, 13}
TRIGGER = {"availableNow": True}

Transform = Callable[[DataFrame], DataFrame]


def in_python(rows: DataFrame) -> DataFrame:
    bad = BAD

    # Spark reads type hints as those of pandas functions.
    @F.udf("string")
    def doubled(value):  # type: ignore[no-untyped-def]
        number = int(value)
        if number in bad:
            raise ValueError(f"{number} is bad")
        return str(number * 2)

    return rows.select("key", doubled("value").alias("value"), "lineage")


def fill(settings: Settings, topic: str, values: list[str]) -> None:
    with RecordProducer(settings.kafka) as producer:
        for number, value in enumerate(values):
            partition = number % 2
            producer.send(topic, value.encode(), b"k", headers=[("h", b"1")], partition=partition)


def with_limits(settings: Settings, **limits: int) -> Settings:
    return settings.model_copy(update={"jobs": settings.jobs.model_copy(update=limits)})


@pytest.fixture(autouse=True)
def ansi_mode(spark: SparkSession) -> Iterator[None]:
    """Casts raise errors; the default only from Spark 4.0 on."""
    with configured(spark, {"spark.sql.ansi.enabled": "true"}):
        yield


@pytest.fixture
def numbers(broker: Settings, make_topic: TopicMaker) -> str:
    """A topic with the numbers from 0 to 19: the even ones in partition 0, the odd ones in 1."""
    topic = make_topic("numbers")
    fill(broker, topic, [str(number) for number in range(20)])
    return topic


class Job:
    """One job on the numbers; `run` starts it with the available records."""

    def __init__(self, broker: Settings, source: str, target: str, checkpoint: Path) -> None:
        self.settings = broker
        self.source, self.target = source, target
        self.checkpoint = checkpoint

    def run(self, transform: Transform, delivery: str = "exactly-once", **options: Any) -> None:
        job = LineageJob(
            "on_error", settings=self.settings, checkpoint=self.checkpoint, delivery=delivery
        )
        rows = transform(job.read(self.source))
        options = {"on_error": "dead-letter", **options}
        job.write(rows, self.target, trigger=TRIGGER, **options)

    def values(self) -> list[str]:
        records = read_topic(self.target, self.settings.kafka)
        return sorted((record.value or b"").decode() for record in records)

    def letters(self) -> list[DeadLetter]:
        records = read_topic(f"{self.target}-dead-letter", self.settings.kafka)
        return sorted((read_letter(record) for record in records), key=lambda each: each.identity)


@pytest.fixture
def job(
    broker: Settings, spark: object, numbers: str, make_topic: TopicMaker, tmp_path: Path
) -> Job:
    return Job(broker, numbers, make_topic("out", partitions=1), tmp_path / "checkpoint")


def expected(numbers: list[int] | None = None) -> list[str]:
    return sorted(str(each * 2) for each in numbers or range(20) if each not in BAD)


@pytest.mark.parametrize("delivery", ["exactly-once", "transactional", "idempotent"])
def test_a_record_for_which_a_python_function_raises_becomes_a_dead_letter(
    job: Job, delivery: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 3 if delivery == "exactly-once" else 1
    job.settings = with_limits(job.settings, max_attempts=attempts)
    with caplog.at_level(logging.INFO, "headwater"):
        job.run(in_python, delivery)
    found = job.values()
    assert sorted(set(found)) == expected()
    if delivery != "idempotent":
        # Idempotent delivery writes a batch that is run again from its start.
        assert found == expected()
    letters = job.letters()
    assert [str(each.origin) for each in letters] == [f"{job.source}/1@2", f"{job.source}/1@6"]
    assert [(each.reason, each.message) for each in letters] == [
        ("ValueError", "5 is bad"),
        ("ValueError", "13 is bad"),
    ]
    assert [(each.record.key, each.record.value) for each in letters] == [
        (b"k", b"5"),
        (b"k", b"13"),
    ]
    assert letters[0].foreign_headers() == (("h", b"1"),)
    assert letters[0].batch == 0
    assert f"attempt {attempts} of {attempts}: ValueError: 5 is bad" in caplog.text
    assert f"batch 0: {job.source}/1@2 goes to the dead letter topic" in caplog.text
    assert read_progress(job.checkpoint).cut_off is None


def in_every_way(rows: DataFrame) -> DataFrame:
    """Each step raises an error for one value."""
    text = F.col("value").cast("string")

    def parsed(values):  # type: ignore[no-untyped-def]
        return values.map(lambda value: str(value).index("1") if value == b"pandas" else value)

    def parsed_frames(frames):  # type: ignore[no-untyped-def]
        for frame in frames:
            if (frame["value"] == b"frame").any():
                raise KeyError("frame")
            yield frame

    in_pandas = F.pandas_udf(parsed, "binary")  # type: ignore[call-overload]
    # Spark merges these conditions with the one that excludes failed records.
    rows = rows.where(F.udf(lambda value: value != b"where" or int(value) > 0, "boolean")("value"))
    rows = rows.where((text != "cast") | (text.cast("int") > 0))
    stop = F.raise_error(F.lit("not allowed"))
    rows = rows.withColumn("value", F.when(text == "raise", stop).otherwise(F.col("value")))
    rows = rows.withColumn("value", in_pandas("value"))
    lineage = rows.schema["lineage"].dataType.simpleString()
    schema = f"key binary, value binary, lineage {lineage}"
    return rows.select("key", "value", "lineage").mapInPandas(parsed_frames, schema)


@pytest.mark.lines
def test_functions_and_expressions_of_every_kind_are_isolated(
    job: Job, broker: Settings, numbers: str
) -> None:
    fill(broker, numbers, ["where", "cast", "raise", "pandas", "frame"])
    job.settings = with_limits(broker, max_attempts=1)
    job.run(in_every_way)
    assert job.values() == sorted(str(each) for each in range(20))
    found = {each.record.value: (each.reason, each.message or "") for each in job.letters()}
    kinds = {value: kind for value, (kind, _) in found.items()}
    # In Spark 3.5 it is Java's own.
    assert (kinds.pop(b"raise") or "").endswith("RuntimeException")
    assert kinds == {
        b"where": "ValueError",
        b"cast": "org.apache.spark.SparkNumberFormatException",
        b"pandas": "ValueError",
        b"frame": "KeyError",
    }
    assert "invalid literal for int()" in found[b"where"][1]
    assert found[b"cast"][1].startswith("[CAST_INVALID_INPUT] The value 'cast'")
    assert "not allowed" in found[b"raise"][1]
    assert found[b"frame"][1] == "'frame'"


def test_a_record_is_isolated_after_a_shuffle_too(job: Job, broker: Settings, numbers: str) -> None:
    fill(broker, numbers, ["x"])
    job.settings = with_limits(broker, max_attempts=1)

    def parsed(rows: DataFrame) -> DataFrame:
        number = F.col("value").cast("string").cast("int").cast("string")
        return rows.repartition(2).select("key", number.alias("value"), "lineage")

    job.run(parsed)
    assert job.values() == sorted(str(each) for each in range(20))
    assert [str(each.origin) for each in job.letters()] == [f"{numbers}/0@10"]


def test_an_error_that_does_not_occur_again_makes_no_dead_letter(
    job: Job, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failed_once = tmp_path / "failed"

    def once(value):  # type: ignore[no-untyped-def]
        if int(value) == 7 and not failed_once.exists():
            failed_once.touch()
            raise ConnectionError("no answer")
        return str(int(value) * 2)

    job.run(lambda rows: rows.select("key", F.udf(once)("value").alias("value"), "lineage"))
    assert job.values() == sorted(str(each * 2) for each in range(20))
    assert job.letters() == []
    assert "attempt 1 of 3: ConnectionError: no answer" in caplog.text
    assert "attempt 2 of 3" not in caplog.text


def test_an_error_that_no_record_causes_on_its_own_stops_the_job(job: Job) -> None:
    def together(frames):  # type: ignore[no-untyped-def]
        for frame in frames:
            if {b"3", b"7"} <= set(frame["value"]):
                raise RuntimeError("3 and 7")
            yield frame

    def transform(rows: DataFrame) -> DataFrame:
        lineage = rows.schema["lineage"].dataType.simpleString()
        rows = rows.select("value", "lineage")
        return rows.mapInPandas(together, f"value binary, lineage {lineage}")

    job.settings = with_limits(job.settings, max_attempts=1)
    with pytest.raises(QueryFailedError, match="RuntimeError: 3 and 7"):
        job.run(transform)
    assert job.letters() == []


def test_more_failing_records_than_the_limit_stop_the_job(job: Job, broker: Settings) -> None:
    job.settings = with_limits(broker, max_attempts=1, max_failed_records=1)
    with pytest.raises(QueryFailedError) as raised:
        job.run(in_python)
    assert f"more than 1 records of a batch, the first of them {job.source}/1@2" in str(
        raised.value
    )
    assert "HEADWATER_JOBS__MAX_FAILED_RECORDS" in (raised.value.hint or "")
    assert job.letters() == []
    failed = read_failed_records(job.checkpoint)
    assert failed is not None
    assert failed.found == ()


def test_a_violated_expectation_stops_the_job_and_makes_no_dead_letter(
    job: Job, broker: Settings
) -> None:
    settings = with_limits(broker, max_attempts=1)
    reading = LineageJob("on_error", settings=settings, checkpoint=job.checkpoint)
    rows = in_python(reading.read(job.source))
    rows = reading.expect(rows, [satisfies("value != '34'", severity="fail")])
    with pytest.raises(ExpectationFailedError):
        reading.write(rows, job.target, trigger=TRIGGER, on_error="dead-letter")
    assert job.letters() == []


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(
        F.count("*").cast("string").alias("value"), F.first("lineage").alias("lineage")
    )


def _distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["value"]).select("key", "value", "lineage")


def _doubled_stream(rows: DataFrame) -> DataFrame:
    rows = rows.select("key", "value", "lineage")
    return rows.union(rows)


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (_counted, "by the operator Aggregate"),
        (_distinct, "by the operator Deduplicate"),
        (_doubled_stream, r"2 streams \(kafka, kafka\)"),
    ],
)
def test_rows_whose_failed_records_can_not_be_isolated_are_refused(
    job: Job, transform: Transform, why: str
) -> None:
    with pytest.raises(InputError, match=why) as refused:
        job.run(transform)
    assert "column `error`" in (refused.value.hint or "")


def test_an_unknown_value_is_refused(job: Job) -> None:
    with pytest.raises(InputError, match="unknown on_error: 'ignore'"):
        job.run(in_python, on_error="ignore")


def test_such_a_dead_letter_is_explained_and_redriven_like_others(
    job: Job, broker: Settings
) -> None:
    job.settings = with_limits(broker, max_attempts=1)
    job.run(in_python)
    report = verify(job.target, job.source, settings=broker)
    assert report.passed
    answer = why_missing(f"{job.source}/1@2", job.target, settings=broker)
    assert answer.fate is Fate.DEAD_LETTERED
    assert redrive(job.target, settings=broker).passed
    fixed = [record.value for record in read_topic(job.source, broker.kafka)][-2:]
    assert sorted(value or b"" for value in fixed) == [b"13", b"5"]
    job.run(lambda rows: rows.select("key", "value", "lineage"))
    assert job.values() == sorted([*expected(), "13", "5"])
