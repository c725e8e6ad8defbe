"""The strict mode when Kafka gives a transaction up.

A broker does that after some kills only, and none that a test could bring about at will: what the
query raises is made here. `tests/fault/test_delivery_modes.py` kills a real one.
"""

from __future__ import annotations

from typing import cast

import pytest

from headwater.delivery.modes import Mode, Run, Strict
from headwater.errors import QueryFailedError
from headwater.spark import StopSignal

LOST = "OutOfOrderSequenceException: The broker received an out of order sequence number."


class Queries:
    """Each start of the query fails with the next text; the first after the last one ends well."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.starts = 0
        self.told: list[str] = []

    def run(self, stop: StopSignal | None = None) -> None:
        Strict().run(cast("Run", self), stop or StopSignal())

    def say(self, line: str) -> None:
        self.told.append(line)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Mode, run: Queries, stop: StopSignal) -> None:
        run.starts += 1
        if run.failures:
            raise QueryFailedError(run.failures.pop(0))

    monkeypatch.setattr(Mode, "run", run)


def test_a_batch_whose_transaction_was_lost_runs_again_and_says_so() -> None:
    queries = Queries(LOST, LOST)
    queries.run()
    assert queries.starts == 3
    assert (
        queries.told
        == ["Kafka ended a transaction (OutOfOrderSequenceException); its batch runs again"] * 2
    )


def test_it_does_not_run_again_for_ever() -> None:
    queries = Queries(*[LOST] * 10)
    with pytest.raises(QueryFailedError, match="OutOfOrderSequence"):
        queries.run()
    assert queries.starts == 4


@pytest.mark.parametrize("failure", ["RecordTooLargeException: 2 MB", "ProducerFencedException"])
def test_other_failures_end_the_query_at_once(failure: str) -> None:
    queries = Queries(failure)
    with pytest.raises(QueryFailedError, match=failure.split(":")[0]):
        queries.run()
    assert queries.starts == 1


def test_a_query_that_is_to_stop_is_not_started_again() -> None:
    queries, stop = Queries(LOST), StopSignal()
    stop.request()
    with pytest.raises(QueryFailedError):
        queries.run(stop)
    assert queries.starts == 1
