"""A socket that has until a moment for all that is done with it together, connecting included;
only looking up a name takes as long as the system lets it.

A socket's own limit is for each call: a server that sends a byte now and then would hold a request
for ever. Here each call gets what is left of the time. No thread watches over it, because none can
be started any more while the interpreter ends, which is when the last events of a job leave.
"""

from __future__ import annotations

import io
import socket
import time
from typing import Any, Literal


class DeadlineSocket:
    """As much of a socket as `http.client` uses."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._end = 0.0

    def end_by(self, moment: float) -> None:
        """From now on all calls together end by this moment of the monotonic clock."""
        self._end = moment

    def sendall(self, data: Any) -> None:
        """Raises TimeoutError when the time is over."""
        left = memoryview(data).cast("B")
        while left:
            left = left[self.in_time().send(left) :]

    def makefile(self, mode: Literal["rb"]) -> io.BufferedReader:
        """To read from; the socket stays open until this is closed, too."""
        return io.BufferedReader(_Reader(self, self._socket.makefile(mode, buffering=0)))

    def close(self) -> None:
        self._socket.close()

    def in_time(self) -> socket.socket:
        """The socket itself, for one call within what is left of the time."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the time of this request is over")
        self._socket.settimeout(seconds)
        return self._socket


class _Reader(io.RawIOBase):
    def __init__(self, timed: DeadlineSocket, raw: socket.SocketIO) -> None:
        self._timed = timed
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.in_time()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def connected_by(end: float, host: str, port: int) -> socket.socket:
    """A connection to the first of the host's addresses that answers; all share the time."""
    trouble: OSError = TimeoutError("no address was tried in time")
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, place in enumerate(places):
        left = end - time.monotonic()
        if left <= 0:
            break
        # One that is silent leaves time for those behind it.
        try:
            return _connected_to(place, left / (len(places) - number))
        except OSError as error:
            trouble = error
    raise trouble


def _connected_to(place: tuple[Any, ...], seconds: float) -> socket.socket:
    family, kind, protocol, _, address = place
    made = socket.socket(family, kind, protocol)
    try:
        made.settimeout(seconds)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made
