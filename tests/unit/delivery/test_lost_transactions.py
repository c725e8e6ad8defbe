"""The transactional mode when a broker aborts a transaction.

A broker does that only after some kills, which a test can't reproduce reliably: the errors of the
query are simulated here. `tests/fault/test_delivery_modes.py` kills a real broker.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headwater.delivery import modes
from headwater.delivery.modes import Delivery, Mode, Transactional
from headwater.errors import QueryFailedError
from headwater.settings import Settings
from headwater.spark.query_runner import QueryRun, StopSignal

LOST = "OutOfOrderSequenceException: The broker received an out of order sequence number."


class Queries:
    """Each start of the query fails with the next text; after the last one it succeeds."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.starts = 0
        self.run = QueryRun("-", StopSignal())
        self.target = SimpleNamespace(checkpoint=Path("/checkpoint"), accept=frozenset())
        self.spark = None
        self.settings = Settings()

    def deliver(self) -> None:
        Transactional().deliver(cast("Delivery", self))


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def deliver(self: Mode, queries: Queries) -> None:
        queries.starts += 1
        if queries.failures:
            raise QueryFailedError(queries.failures.pop(0))

    monkeypatch.setattr(Mode, "deliver", deliver)
    monkeypatch.setattr(modes, "check_committed_batches", lambda *_: None)


def test_a_batch_whose_transaction_was_lost_is_retried_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queries = Queries(LOST, LOST)
    queries.deliver()
    assert queries.starts == 3
    line = "the broker aborted a transaction (OutOfOrderSequenceException); retrying its batch"
    assert caplog.messages == [line] * 2


def test_the_number_of_retries_is_limited() -> None:
    queries = Queries(*[LOST] * 10)
    with pytest.raises(QueryFailedError, match="OutOfOrderSequence"):
        queries.deliver()
    assert queries.starts == 4


@pytest.mark.parametrize("failure", ["RecordTooLargeException: 2 MB", "ProducerFencedException"])
def test_other_failures_are_not_retried(failure: str) -> None:
    queries = Queries(failure)
    with pytest.raises(QueryFailedError, match=failure.split(":")[0]):
        queries.deliver()
    assert queries.starts == 1


def test_a_query_is_not_restarted_after_a_stop_request() -> None:
    queries = Queries(LOST)
    queries.run.stop.request()
    with pytest.raises(QueryFailedError):
        queries.deliver()
    assert queries.starts == 1
