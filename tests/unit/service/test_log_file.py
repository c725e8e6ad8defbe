"""The log of a local service does not grow without limit."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from headwater.service.log_file import LogFileLimit, rotate


def test_a_log_that_is_too_large_is_emptied_while_the_process_appends_to_it(tmp_path: Path) -> None:
    log = tmp_path / "catalog.log"
    with log.open("a") as appended:
        handler = logging.StreamHandler(appended)
        handler.addFilter(LogFileLimit(log, max_bytes=10_000))
        logger = logging.Logger("limited")
        logger.addHandler(handler)
        for number in range(2000):
            logger.warning("line %d of a long log", number)
    # Checked once in a hundred lines.
    assert log.stat().st_size < 10_000 + 100 * 40
    assert log.read_text().splitlines()[-1].startswith("line 1999")
    assert sorted(os.listdir(tmp_path)) == ["catalog.log", "catalog.log.1"]


def test_a_large_log_is_renamed_before_a_service_starts(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    rotate(log)
    log.write_text("x" * 100)
    rotate(log, max_bytes=100)
    assert log.exists()
    rotate(log, max_bytes=99)
    assert not log.exists()
    assert (tmp_path / "kafka.log.1").read_text() == "x" * 100
