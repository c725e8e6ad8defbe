"""The row lineage of a job that is not changed is known outside of it, by the topic of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from tests.submitted import submit
from tests.support import environment
from tests.unchanged import ENABLED, Ledger, Records, numbers
from tests.waiting import wait_until

from headwater.cli.app import headwater
from headwater.kafka import RecordProducer, create_topic, last_runs
from headwater.kafka.client import find_topic
from headwater.model.run_record import RunCoverage, RunRecord, decode_run, encode_run
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(400)]

JOB = Path(__file__).parents[1] / "plain_job.py"
PREFIX = "spark.headwater.lineage."


@pytest.fixture
def settings(broker: Settings, make_topic: TopicMaker) -> Settings:
    """With its own topic of runs, which does not exist yet."""
    kafka = broker.kafka.model_copy(update={"runs_topic": f"{make_topic('used')}-runs"})
    return broker.model_copy(update={"kafka": kafka})


@pytest.fixture
def ledger(
    settings: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path
) -> Ledger:
    ledger = Ledger(spark, settings, tmp_path)
    ledger.fill(make_topic("in"), 10)
    return ledger


def source_of(ledger: Ledger) -> str:
    return next(iter(ledger.numbers)).rpartition("/")[0]


def coverages(settings: Settings) -> dict[str, RunCoverage | None]:
    return {run.job_name: run.coverage for run in last_runs(settings.kafka)}


def reports(settings: Settings, name: str, kind: str) -> Callable[[], bool]:
    """Whether the topic has this kind; it is written while the query runs."""

    def check() -> bool:
        coverage = coverages(settings).get(name)
        return coverage is not None and coverage.kind == kind

    return check


def test_doctor_shows_the_row_lineage_of_a_submitted_job_that_is_not_changed(
    settings: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, log = make_topic("in"), tmp_path / "job.log"
    # A query that is switched off does not create it.
    create_topic(settings.kafka.runs_topic, 1, settings.kafka)
    Records(settings).fill(source, 20)
    queries = [f"{name}:{source}:{source}:{make_topic(name)}" for name in ("copied", "in_pandas")]
    disabled = f"windowed:{source}:{source}:{make_topic('windowed')}"
    job = [str(JOB), settings.bootstrap_servers, str(tmp_path / "c"), "100", *queries, disabled]
    configuration = {
        f"{PREFIX}runsTopic": settings.kafka.runs_topic,
        f"{PREFIX}stamp": "full",
        f"{PREFIX}disabledQueries": "windowed",
    }
    assert submit(settings, log, job, configuration=configuration).wait(300) == 0, log.read_text()
    variables = environment(settings, HEADWATER_KAFKA__RUNS_TOPIC=settings.kafka.runs_topic)
    text = CliRunner().invoke(headwater, ["doctor"], env=variables).output
    assert f"last runs in topic {settings.kafka.runs_topic}: 1 exact, 1 off, 1 ranges" in text
    assert "copied is exact" in text
    assert "in_pandas is ranges (MapInPandas)" in text
    assert f"windowed is off ({PREFIX}disabledQueries has the query)" in text


def test_the_status_follows_the_writes_in_foreach_batch(
    ledger: Ledger, settings: Settings, tmp_path: Path
) -> None:
    runs = {f"{PREFIX}runsTopic": settings.kafka.runs_topic}
    folder = str(tmp_path / "table")
    ledger.spark.sql(f"CREATE TABLE delta.`{folder}` (n int, k int, lineage string) USING delta")

    def write(batch: DataFrame) -> None:
        batch.write.format("delta").mode("append").save(folder)

    def write_less(batch: DataFrame) -> None:
        batch.localCheckpoint().write.format("delta").mode("append").save(folder)

    source = source_of(ledger)
    with configured(ledger.spark, runs):
        ledger.in_batches(source, write, name="of_batches")
        wait_until(reports(settings, "of_batches", "exact"), what="the record of the start")
        ledger.in_batches(source, write_less, name="of_batches")
    wait_until(reports(settings, "of_batches", "unknown"), what="the record of the write")


def test_a_query_without_lineage_is_reported_with_the_reason(
    ledger: Ledger, settings: Settings, make_topic: TopicMaker
) -> None:
    rows, runs = ledger.read(source_of(ledger)).select(numbers("n")), settings.kafka.runs_topic
    ledger.run(rows, make_topic("out"), runsTopic=runs, enabled="false")
    # Nothing is created for a query that is switched off.
    assert find_topic(runs, settings.kafka) is None
    ledger.run(rows, make_topic("again"), runsTopic=runs, sink="elsewhere")
    name = f"unchanged_{ledger._queries}"
    wait_until(reports(settings, name, "off"), what="the record of a wrong setting")
    coverage = coverages(settings)[name]
    assert coverage is not None
    assert "sink is 'elsewhere'" in str(coverage.reason)
    with configured(ledger.spark, {**ENABLED, f"{PREFIX}runsTopic": runs}):
        query = rows.writeStream.format("noop").queryName("nowhere").trigger(availableNow=True)
        query.option("checkpointLocation", str(ledger.folder / "nowhere")).start().awaitTermination(
            60
        )
    wait_until(reports(settings, "nowhere", "off"), what="the record of a sink without a column")


def test_forged_records_do_not_disturb_the_status(settings: Settings) -> None:
    runs = settings.kafka.runs_topic
    create_topic(runs, 1, settings.kafka)
    first = RunRecord("job", "v1", 5, RunCoverage("exact"))
    later = RunRecord("job", "v1", 9, RunCoverage("off", (), "why"))
    with RecordProducer(settings.kafka) as producer:
        for number, run in enumerate((later, first, RunRecord("other", "v1", 5))):
            producer.send(runs, encode_run(run), str(number).encode())
        for value in (b'{"job":"x","coverage":"fine"}', b'{"job":"y","coverage":[]}', b"\xff", b""):
            producer.send(runs, value, b"forged")
    assert last_runs(settings.kafka) == [later]
    forged = b'{"job":"x","coverage":"off","steps":[1,"s"],"reason":{}}'
    decoded = decode_run(forged)
    assert decoded is not None
    assert decoded.coverage == RunCoverage("off", ("s",))
    large = RunRecord("job", "v1", 5, RunCoverage("ranges", ("x" * 1000,) * 20))
    assert decode_run(encode_run(large)) == RunRecord("job", "v1", 5, RunCoverage("ranges"))
