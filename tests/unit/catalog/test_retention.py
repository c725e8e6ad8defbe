"""Retention continues after a failed sweep."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from headwater.catalog.store import retention
from headwater.errors import DatabaseUnavailableError


def test_a_failed_sweep_is_logged_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Exception | int] = [
        DatabaseUnavailableError("connection refused"),
        RuntimeError("unexpected"),
        7,
    ]
    done = asyncio.Event()

    async def sweep(pool: Any, before: datetime) -> int:
        if not outcomes:
            done.set()
            return 0
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def run() -> None:
        sweeping = retention.sweep_periodically(None, 30, interval_seconds=0)  # type: ignore[arg-type]
        task = asyncio.create_task(sweeping)
        await asyncio.wait_for(done.wait(), 10)
        task.cancel()

    monkeypatch.setattr(retention, "sweep", sweep)
    caplog.set_level("INFO")
    asyncio.run(run())
    for message in ("connection refused", "unexpected", "deleted 7 rows older than 30 days"):
        assert message in caplog.text
