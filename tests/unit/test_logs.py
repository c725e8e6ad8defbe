"""Log output of the command line: formats, job names, and restoring the configuration."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from headwater.process import LogFormat, StderrHandler, configure_logging, job_logging

LOGGER = logging.getLogger("headwater")
LOG = logging.getLogger("headwater.tests")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    handlers, level = list(LOGGER.handlers), LOGGER.level
    for handler in handlers:
        if isinstance(handler, StderrHandler):
            LOGGER.removeHandler(handler)
    yield
    LOGGER.handlers[:] = handlers
    LOGGER.setLevel(level)


def stderr_handlers() -> list[logging.Handler]:
    return [each for each in LOGGER.handlers if isinstance(each, StderrHandler)]


def test_text_lines_have_the_level_except_for_information(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging()
    LOG.debug("hidden")
    LOG.info("read %d records", 3)
    LOG.warning("slow")
    assert capsys.readouterr().err == "read 3 records\nwarning: slow\n"


def test_json_lines_have_time_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "json")
    LOG.debug("read %d records", 3)
    line = json.loads(capsys.readouterr().err)
    assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
    assert line == {"level": "debug", "logger": "headwater.tests", "message": "read 3 records"}


def test_a_json_line_has_the_exception(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    try:
        raise ValueError("bad")
    except ValueError:
        LOG.exception("failed")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"]) == ("error", "failed")
    assert line["exception"].endswith("ValueError: bad")


@pytest.mark.parametrize(
    ("log_format", "start"), [("text", "reducer: started"), ("json", '{"time": ')]
)
def test_lines_have_the_name_of_the_running_job(
    log_format: LogFormat, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("info", log_format)
    with job_logging("reducer"):
        LOG.info("started")
    LOG.info("after the job")
    during, after = capsys.readouterr().err.splitlines()
    assert during.startswith(start)
    assert "reducer" in during
    assert "reducer" not in after


def test_a_quiet_job_logs_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    with job_logging("reducer", quiet=True):
        LOG.info("started")
        LOG.warning("slow")
    assert capsys.readouterr().err == "reducer: warning: slow\n"


def test_a_quiet_job_does_not_lower_a_higher_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("error")
    with job_logging("reducer", quiet=True):
        LOG.warning("slow")
        LOG.error("failed")
    assert capsys.readouterr().err == "reducer: error: failed\n"


def test_the_handler_of_a_job_is_removed_even_after_an_error() -> None:
    level = LOGGER.level

    def fail() -> None:
        with job_logging("reducer"):
            assert len(stderr_handlers()) == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stderr_handlers() == []
    assert LOGGER.level == level


def test_a_job_uses_and_keeps_the_configured_handler() -> None:
    handler = configure_logging()
    with job_logging("reducer"):
        assert stderr_handlers() == [handler]
    assert stderr_handlers() == [handler]


def test_a_new_configuration_replaces_the_earlier_one(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    configure_logging("warning")
    LOG.info("hidden")
    LOG.warning("once")
    assert capsys.readouterr().err == "warning: once\n"
