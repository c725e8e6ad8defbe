"""Row lineage of random plain jobs.

`make soak PLANS=500 SEED=7 MINUTES=60` runs more of them; see `tests/random_plans.py`.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.random_plans import Plan, random_plan
from tests.unchanged import Ledger, values

from headwater.kafka import create_topic
from headwater.kafka.topics import delete_topics
from headwater.model import Record
from headwater.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SEED = os.environ.get("SEED", "2")
PLANS = int(os.environ.get("PLANS", "20"))
MINUTES = float(os.environ.get("MINUTES", "60"))
DEADLINE = time.monotonic() + 60 * MINUTES
LEFT, RIGHT = "random-left", "random-right"
RECORDS, PER_BATCH = 60, 40
# The number of rows of each plan that has run.
written: list[int] = []
# The numbers of the plans for which no time was left.
skipped: list[int] = []


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("random"))
    for topic, first in ((LEFT, 0), (RIGHT, 1000)):
        create_topic(topic, 2, broker.kafka)
        ledger.fill(topic, RECORDS, first=first)
    return ledger


def numbered(ledger: Ledger, topic: str) -> DataFrame:
    rows = ledger.read(topic, maxOffsetsPerTrigger=PER_BATCH)
    columns = ("array(n) AS ns", "k", "t", "CAST(n AS BIGINT) AS v", "false AS o")
    return rows.selectExpr(*columns)


def rows_of(plan: Plan, ledger: Ledger) -> DataFrame:
    names: dict[str, Any] = {
        # Functions of this module go to Python workers by value.
        "__name__": "__main__",
        "spark": ledger.spark,
        "F": F,
        "pd": pd,
        "left": numbered(ledger, LEFT),
        "right": numbered(ledger, RIGHT),
    }
    exec(plan.source, names)  # noqa: S102
    rows: DataFrame = names["rows"]
    return rows


def mismatch(record: Record, ledger: Ledger) -> str | None:
    """What is wrong with the parents in the header, compared to the ledger in the value."""
    assert record.value is not None
    listed, opaque, *_ = record.value.decode().split(";")
    true = {int(number) for number in listed.split(",")}
    parents = ledger.parents(record)
    if parents is None or parents.unknown:
        return f"parents are unknown, expected {sorted(true)}"
    if opaque == "true":
        missing = [number for number in true if not ledger.is_within(number, parents)]
        return f"{missing} are not within {parents}" if missing else None
    if not parents.exact:
        return f"parents are ranges, expected {sorted(true)}"
    return (
        None
        if parents.numbers == true
        else f"parents are {sorted(parents.numbers)}, expected {sorted(true)}"
    )


@pytest.mark.parametrize("number", range(PLANS))
def test_a_random_job_writes_the_same_and_its_parents_are_those_of_the_ledger(
    ledger: Ledger, number: int
) -> None:
    if time.monotonic() > DEADLINE:
        skipped.append(number)
        pytest.skip("MINUTES are over")
    plan = random_plan(SEED, number)
    again = f"SEED={SEED} PLANS={number + 1} pytest {__file__} -k '[{number}]'"
    outputs = [f"random-{number}-{kind}" for kind in ("plain", "lineage")]
    for output in outputs:
        create_topic(output, 1, ledger.settings.kafka)
    rows = rows_of(plan, ledger)
    # Both at once: a query mostly waits.
    queries = [
        ledger.start(rows, output, lineage=lineage)
        for output, lineage in zip(outputs, (False, True), strict=True)
    ]
    plain, records = (
        ledger.finish(query, output) for query, output in zip(queries, outputs, strict=True)
    )
    assert values(records) == values(plain), f"other values\n{again}\n{plan}"
    wrong = [(each.value, found) for each in records if (found := mismatch(each, ledger))]
    assert not wrong, f"{wrong[:5]}\n{again}\n{plan}"
    written.append(len(records))
    delete_topics(outputs, ledger.settings.kafka)


def test_most_of_the_random_jobs_that_ran_have_written_rows() -> None:
    """Jobs that drop all rows show nothing."""
    assert sum(rows > 0 for rows in written) >= 0.8 * len(written), written


def test_all_random_jobs_have_run_within_the_minutes() -> None:
    """Else a run without time for all of them would pass."""
    ran = PLANS - len(skipped)
    assert ran == PLANS, (
        f"{ran} of {PLANS} plans ran in {MINUTES:g} minutes: raise MINUTES or lower PLANS"
    )
