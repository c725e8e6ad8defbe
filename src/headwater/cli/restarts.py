"""`run --restarts N`: a fresh process after one that failed.

A process whose batch failed may still have records of it on their way to Kafka; the
exactly-once promise asks for a new one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from threading import Event

import click

from headwater.errors import InputError

_LONGEST_PAUSE_SECONDS = 30.0


def run_with_restarts(arguments: Sequence[str], restarts: int) -> int:
    """Run `headwater run ARGUMENTS` in a child, again after a failure; returns its exit code.

    Bad input is not tried again, and a stop request ends it. Signals are handed on.
    """
    stopped = Event()
    for failures in range(restarts + 1):
        code = _run_child(arguments, stopped)
        if code == 0 or code == InputError.exit_code or stopped.is_set():
            return code
        if failures < restarts:
            pause = min(2.0**failures, _LONGEST_PAUSE_SECONDS)
            left = restarts - failures
            click.echo(
                f"the job ended with {code}; {left} restarts left, next in {pause:g} s", err=True
            )
            if stopped.wait(pause):
                return code
    click.echo(f"the job failed {restarts + 1} times; raise --restarts to go on", err=True)
    return code


def _run_child(arguments: Sequence[str], stopped: Event) -> int:
    children: list[subprocess.Popen[bytes]] = []

    def hand_on(number: int, frame: object) -> None:
        stopped.set()
        for child in children:
            child.send_signal(number)

    # Before the child is there: a signal in between would leave it alone.
    kept = {name: signal.signal(name, hand_on) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        with subprocess.Popen([sys.executable, "-m", "headwater", *arguments]) as child:
            children.append(child)
            if stopped.is_set():
                child.terminate()
            return child.wait()
    finally:
        for name, handler in kept.items():
            signal.signal(name, handler)


def take_restarts(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Find `--restarts N` among a job's arguments and leave the rest to the job.

    Raises:
        InputError: N is not a number of times.
    """
    rest = list(arguments)
    for place, word in enumerate(rest):
        name, equals, value = word.partition("=")
        if name != "--restarts":
            continue
        number = value if equals else "".join(rest[place + 1 : place + 2])
        if not number.isascii() or not number.isdigit():
            raise InputError(f"--restarts wants a number, not {number!r}")
        del rest[place : place + (1 if equals else 2)]
        return int(number), rest
    return 0, rest
