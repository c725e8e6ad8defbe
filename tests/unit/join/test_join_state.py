"""The size of the state of a join is monitored, and the job fails at its limit."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.errors import StateLimitError
from headwater.join.state import StateLimits, StateMonitor, StateSize


def batch(number: int, rows: int, memory: int = 0, disk: int = 0, dropped: int = 0) -> Any:
    operator = {
        "numRowsTotal": rows,
        "memoryUsedBytes": memory,
        "numRowsDroppedByWatermark": dropped,
        "customMetrics": {"rocksdbSstFileSize": disk},
    }
    return {"batchId": number, "stateOperators": [operator], "observedMetrics": {}}


def test_the_size_is_that_of_all_operators() -> None:
    progress = batch(0, 3, memory=10, disk=30)
    progress["stateOperators"] *= 2
    assert StateSize.of(progress) == StateSize(6, 60)


def test_a_growing_state_near_its_limit_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = StateMonitor(StateLimits(rows=100))
    for number, rows in enumerate((79, 80, 80, 95, 90)):
        monitor.take(batch(number, rows))
    assert caplog.messages == [
        "the state has 80 rows after batch 1, 80% of max_state_rows (--max-state-rows)",
        "the state has 95 rows after batch 3, 95% of max_state_rows (--max-state-rows)",
    ]


@pytest.mark.parametrize(
    ("progress", "option"),
    [(batch(7, 100), "--max-state-rows"), (batch(7, 1, disk=2000), "--max-state-mb")],
)
def test_a_state_at_its_limit_fails_the_job_with_the_option_in_the_hint(
    progress: Any, option: str
) -> None:
    with pytest.raises(StateLimitError, match="after batch 7") as stopped:
        StateMonitor(StateLimits(rows=100, bytes=2000)).take(progress)
    assert option in (stopped.value.hint or "")
    assert stopped.value.exit_code == 2


def test_rows_that_spark_drops_itself_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    StateMonitor(StateLimits()).take(batch(3, 1, dropped=2))
    assert caplog.messages == [
        "batch 3: Spark dropped 2 late rows itself; this is a bug, please report it"
    ]
