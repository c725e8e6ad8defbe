"""The sweep of what is too old goes on, whatever happened to the one before."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from headwater.catalog.store import retention
from headwater.errors import DatabaseUnavailableError


def test_a_sweep_that_fails_is_told_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Exception | int] = [
        DatabaseUnavailableError("nobody answers"),
        RuntimeError("nobody has thought of this"),
        7,
    ]
    done = asyncio.Event()

    async def sweep(pool: Any, before: datetime) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        done.set()
        # The loop never ends by itself.
        monkeypatch.setattr(retention, "_BETWEEN_SECONDS", 60.0)
        return outcome

    async def run() -> None:
        task = asyncio.create_task(retention.keep_sweeping(None, 30))  # type: ignore[arg-type]
        await asyncio.wait_for(done.wait(), 10)
        await asyncio.sleep(0)
        task.cancel()

    monkeypatch.setattr(retention, "sweep", sweep)
    monkeypatch.setattr(retention, "_BETWEEN_SECONDS", 0.0)
    caplog.set_level("INFO")
    asyncio.run(run())
    for told in ("nobody answers", "nobody has thought of this", "7 rows older than 30 days"):
        assert told in caplog.text
