"""Hands messages to the process that sends them, and does not wait longer than it was told to."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

from headwater.catalog.alerting.channels import BELL, Channel
from headwater.catalog.alerting.messages import Message
from headwater.errors import EgressRefusedError, NotificationError
from headwater.settings import bare_environment
from headwater.settings.alerts import AlertsSettings

# Starting Python and loading the libraries, on a busy machine.
_START_SECONDS = 15.0
_STOP_SECONDS = 2.0


class Sender:
    """Sends to one channel, one message after the other; slow channels do not delay others.

    Its process is started with the first message, and anew after one that hung or died.
    """

    def __init__(self, channel: Channel, settings: AlertsSettings) -> None:
        self.channel = channel
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._answered = False

    def send(self, message: Message) -> None:
        """Returns when the channel has taken the message.

        Raises:
            NotificationError: it did not, or not in time.
            EgressRefusedError: its target is not public, and not allowed.
        """
        if self.channel.kind == BELL:
            _ring(message)
            return
        answer = self._ask(
            {
                "address": self.channel.address.get_secret_value(),
                "payload": message.payload(),
                "seconds": self._settings.send_seconds,
            }
        )
        if answer["refused"] is not None:
            raise EgressRefusedError(
                f"channel {self.channel.name!r} leads to {answer['refused']}, "
                "where messages may not go",
                hint="HEADWATER_ALERTS__ALLOW_PRIVATE lists networks that are allowed all the same",
            )
        if answer["problem"] is not None:
            raise NotificationError(f"channel {self.channel.name!r}: {answer['problem']}")

    def warm(self) -> None:
        """Start the process, so that the first message need not wait for it."""
        if self.channel.kind != BELL and self._process is None:
            self._process = self._start()

    def close(self) -> None:
        """End the process; a message that it is sending may be lost, and is sent again."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        seconds = self._settings.send_seconds
        process = self._ready()
        if not self._answered:
            seconds += _START_SECONDS
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout.fileno(), process.stdout, seconds)
        except OSError:
            line = None
        if not line:
            self.close()
            raise NotificationError(
                f"channel {self.channel.name!r}: no answer within {seconds:g} s",
                hint="HEADWATER_ALERTS__SEND_SECONDS says how long sending may take",
            )
        self._answered = True
        found: dict[str, Any] = json.loads(line)
        return found

    def _ready(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and process.poll() is None:
            return process
        self.close()
        try:
            process = self._process = self._start()
        except OSError as error:
            # A try like any other: it counts, and the next one comes after a pause.
            raise NotificationError(
                f"channel {self.channel.name!r}: its process can't be started: {error.strerror}"
            ) from None
        return process

    def _start(self) -> subprocess.Popen[bytes]:
        self._answered = False
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.catalog.alerting.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Libraries log addresses with what is secret in them.
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=bare_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        scheme = self.channel.address.get_secret_value().partition(":")[0].lower()
        first = {
            "allowed": list(self._settings.allow_private),
            "webhook": scheme in ("http", "https"),
        }
        process.stdin.write(json.dumps(first).encode() + b"\n")
        return process


def _read_line(number: int, pipe: Any, seconds: float) -> bytes | None:
    deadline = time.monotonic() + seconds
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([number], [], [], left)[0]:
            return None
        some = pipe.read(4096)
        if not some:
            return None
        line += some
    return line


def _ring(message: Message) -> None:
    bell = "\a" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{bell}{message.title}\n")
    sys.stderr.flush()
