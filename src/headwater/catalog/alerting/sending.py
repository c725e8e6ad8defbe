"""Passes messages to the sending process of a channel, with a timeout."""

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

# Time to start Python and import the libraries on a busy machine.
_START_SECONDS = 15.0
_STOP_SECONDS = 2.0


class ChannelSender:
    """Sends to one channel, one message after the other.

    The sending process is started with the first message, and again after it hung or died.
    """

    def __init__(self, channel: Channel, settings: AlertsSettings) -> None:
        self.channel = channel
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._responded = False

    def send(self, message: Message) -> None:
        """Return when the channel has accepted the message.

        Raises:
            NotificationError: it did not accept the message in time.
            EgressRefusedError: its target is neither public nor allowed.
        """
        if self.channel.kind == BELL:
            _ring(message)
            return
        response = self._request(
            {
                "address": self.channel.address.get_secret_value(),
                "payload": message.payload(),
                "seconds": self._settings.send_seconds,
            }
        )
        if response["refused"] is not None:
            raise EgressRefusedError(
                f"channel {self.channel.name!r} connects to {response['refused']}, "
                "which is not allowed",
                hint="HEADWATER_ALERTS__ALLOW_PRIVATE lists the private networks that are allowed",
            )
        if response["problem"] is not None:
            raise NotificationError(f"channel {self.channel.name!r}: {response['problem']}")

    def warm(self) -> None:
        """Start the process, so that the first message does not wait for it."""
        if self.channel.kind != BELL and self._process is None:
            self._process = self._start()

    def close(self) -> None:
        """Kill the process; the outbox sends a message in flight again."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        seconds = self._settings.send_seconds
        process = self._running()
        if not self._responded:
            seconds += _START_SECONDS
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout.fileno(), process.stdout, seconds)
        except OSError:
            line = None
        if not line:
            self.close()
            raise NotificationError(
                f"channel {self.channel.name!r}: no response within {seconds:g} s",
                hint="HEADWATER_ALERTS__SEND_SECONDS sets the timeout",
            )
        self._responded = True
        response: dict[str, Any] = json.loads(line)
        return response

    def _running(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and process.poll() is None:
            return process
        self.close()
        try:
            process = self._process = self._start()
        except OSError as error:
            # Counts as a failed attempt, which is retried after a delay.
            raise NotificationError(
                f"channel {self.channel.name!r}: can't start the sending process: {error.strerror}"
            ) from None
        return process

    def _start(self) -> subprocess.Popen[bytes]:
        self._responded = False
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.catalog.alerting.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Libraries log addresses with their secrets.
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=bare_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        scheme = self.channel.address.get_secret_value().partition(":")[0].lower()
        configuration = {
            "allowed": list(self._settings.allow_private),
            "webhook": scheme in ("http", "https"),
        }
        process.stdin.write(json.dumps(configuration).encode() + b"\n")
        return process


def _read_line(number: int, pipe: Any, seconds: float) -> bytes | None:
    deadline = time.monotonic() + seconds
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([number], [], [], left)[0]:
            return None
        chunk = pipe.read(4096)
        if not chunk:
            return None
        line += chunk
    return line


def _ring(message: Message) -> None:
    bell = "\a" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{bell}{message.title}\n")
    sys.stderr.flush()
