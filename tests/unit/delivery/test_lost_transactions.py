"""The strict mode when Kafka gives a transaction up.

A broker does that after some kills only, and none that a test could bring about at will: what the
query raises is made here. `tests/fault/test_delivery_modes.py` kills a real one.
"""

from __future__ import annotations

from typing import cast

import pytest

from headwater.delivery.modes import Delivery, Mode, Strict
from headwater.errors import QueryFailedError
from headwater.spark.query_runner import QueryRun, StopSignal

LOST = "OutOfOrderSequenceException: The broker received an out of order sequence number."


class Queries:
    """Each start of the query fails with the next text; the first after the last one ends well."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.starts = 0
        self.run = QueryRun("-", StopSignal())

    def deliver(self) -> None:
        Strict().deliver(cast("Delivery", self))


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def deliver(self: Mode, queries: Queries) -> None:
        queries.starts += 1
        if queries.failures:
            raise QueryFailedError(queries.failures.pop(0))

    monkeypatch.setattr(Mode, "deliver", deliver)


def test_a_batch_whose_transaction_was_lost_is_retried_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queries = Queries(LOST, LOST)
    queries.deliver()
    assert queries.starts == 3
    line = "the broker aborted a transaction (OutOfOrderSequenceException); retrying its batch"
    assert caplog.messages == [line] * 2


def test_it_does_not_run_again_for_ever() -> None:
    queries = Queries(*[LOST] * 10)
    with pytest.raises(QueryFailedError, match="OutOfOrderSequence"):
        queries.deliver()
    assert queries.starts == 4


@pytest.mark.parametrize("failure", ["RecordTooLargeException: 2 MB", "ProducerFencedException"])
def test_other_failures_end_the_query_at_once(failure: str) -> None:
    queries = Queries(failure)
    with pytest.raises(QueryFailedError, match=failure.split(":")[0]):
        queries.deliver()
    assert queries.starts == 1


def test_a_query_that_is_to_stop_is_not_started_again() -> None:
    queries = Queries(LOST)
    queries.run.stop.request()
    with pytest.raises(QueryFailedError):
        queries.deliver()
    assert queries.starts == 1
