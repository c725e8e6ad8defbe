"""`--log-level` and `--log-format`, and the log of the service."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from headwater.process import configure_logging

OWN, UVICORN = logging.getLogger("headwater.catalog"), logging.getLogger("uvicorn.error")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("headwater")
    kept = [(logger, logger.level, logger.handlers[:]) for logger in (root, own)]
    yield
    for logger, level, handlers in kept:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def test_commands_log_their_own_messages_without_timestamps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info", "text")
    OWN.info("started")
    OWN.warning("slow")
    OWN.debug("details")
    UVICORN.info("running")
    assert capsys.readouterr().err == "started\nwarning: slow\n"


def test_the_service_logs_all_libraries_with_time_level_and_logger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info", "text")
    configure_logging("info", "text", service=True)
    OWN.info("started")
    UVICORN.info("running")
    UVICORN.debug("details")
    lines = capsys.readouterr().err.splitlines()
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert len(lines) == 2
    assert re.fullmatch(rf"{time} INFO headwater\.catalog started", lines[0])
    assert re.fullmatch(rf"{time} INFO uvicorn\.error running", lines[1])


def test_the_service_respects_level_and_format(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "json", service=True)
    OWN.info("started")
    UVICORN.warning("port is in use")
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"]) == ("warning", "uvicorn.error")
    assert entry["message"] == "port is in use"
    assert entry["time"]
