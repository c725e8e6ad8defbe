"""Signal handlers are installed in Headwater's own commands only."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from headwater import process
from headwater.spark.query_runner import StopSignal


def installed() -> list[object]:
    return [signal.getsignal(name) for name in process.STOP_SIGNALS]


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    before = {name: signal.getsignal(name) for name in process.STOP_SIGNALS}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def test_in_a_program_of_the_user_no_handler_is_installed() -> None:
    before = installed()
    stop = StopSignal()
    with stop.on_signals(), process.handled(signal.SIG_IGN):
        process.exit_on_sigterm()
        assert installed() == before
    assert not process.owns_process()
    assert installed() == before


def test_a_command_gets_a_stop_request_and_restores_the_handlers() -> None:
    before, stop = installed(), StopSignal()
    with process.owned_process():
        with stop.on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(10)
        assert installed() == before
        with process.handled(signal.SIG_IGN):
            assert installed() == [signal.SIG_IGN, signal.SIG_IGN]
            # A command inside another one changes nothing.
            with process.owned_process():
                pass
            assert process.owns_process()
        process.exit_on_sigterm()
        with pytest.raises(SystemExit) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.value.code == 128 + signal.SIGTERM
    assert not process.owns_process()
    assert installed() == before


def test_a_batch_command_keeps_the_handler_that_exists() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with process.owned_process():
        process.exit_on_sigterm()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_other_threads_install_nothing() -> None:
    found: list[bool] = []
    with process.owned_process():
        before = installed()

        def look() -> None:
            with process.handled(signal.SIG_IGN):
                found.append(installed() == before)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join(10)
    assert found == [True]
