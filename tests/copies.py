"""Jobs that copy a topic in the background, one for each delivery mode, while Kafka fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.kills import records_in
from tests.waiting import wait_until

from headwater import LineageJob
from headwater.settings import Settings


def copy(
    mode: str, source: str, target: str, settings: Settings, checkpoint: Path, batch: int
) -> None:
    job = LineageJob(f"copy-{mode}", settings=settings, checkpoint=checkpoint, delivery=mode)
    rows = job.read(source, maxOffsetsPerTrigger=batch).select("key", "value", "lineage")
    job.write(rows, target, trigger={"availableNow": True})


def in_thread(work: Callable[..., None], *arguments: object) -> InThread:
    thread = InThread(lambda: work(*arguments))
    thread.start()
    return thread


class InThread(threading.Thread):
    """Runs a function in a thread; `finish` raises its error."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # raised in the test's own thread
            self._error = error

    def finish(self, seconds: float) -> None:
        self.join(seconds)
        assert not self.is_alive(), f"not finished after {seconds:g} s"
        if self._error is not None:
            raise self._error


def wait_for(records: int, topic: str, settings: Settings, thread: threading.Thread) -> None:
    def written() -> bool:
        assert thread.is_alive(), "the copy ended before the fault"
        return records_in(topic, settings) >= records

    wait_until(written, 60, f"{records} records in {topic}")
