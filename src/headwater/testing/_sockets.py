"""Sockets of the proxy: the listener, and a pair with buffers for each connection."""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.errors import PortTakenError

HOST = "127.0.0.1"
NEVER = float("inf")

# Buffered per direction before reading stops: limits memory, and with latency one connection
# still carries 1 MiB per round trip.
_MAX_BUFFERED_BYTES = 1024 * 1024
# A throttled direction sends the bytes of this many seconds at once.
_THROTTLE_TICK = 0.02
# SO_LINGER on with zero seconds: close() sends RST and not FIN.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class ServerAddress:
    """The server that connections are forwarded to."""

    family: socket.AddressFamily
    address: tuple[object, ...]

    @classmethod
    def resolve(cls, host: str, port: int) -> ServerAddress:
        """The first address, IPv4 before IPv6: local services listen on 127.0.0.1."""
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
        return cls(family, address)


class Flow:
    """One direction of a connection: bytes that were read and not yet forwarded."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.buffered: deque[tuple[float, bytes]] = deque()  # arrival and bytes; b"" is FIN
        self.size = 0
        self.ended = False  # the source sent its FIN, or was closed
        self.finished = False  # the FIN was sent to the sink
        self.blocked = False  # the sink's buffer is full
        self.not_before = 0.0

    def buffer(self, arrival: float, data: bytes) -> None:
        self.buffered.append((arrival, data))
        self.size += len(data)
        self.ended = not data

    def sent(self, size: int) -> None:
        arrival, data = self.buffered.popleft()
        if size < len(data):
            self.buffered.appendleft((arrival, data[size:]))
        self.size -= size

    def drop(self) -> int:
        dropped, self.size = self.size, 0
        self.buffered.clear()
        self.blocked = False
        return dropped


class ProxiedConnection:
    """A client, its connection to the server, and both directions between them."""

    def __init__(self, client: socket.socket, target: ServerAddress) -> None:
        self.client = client
        self.server = socket.socket(target.family, socket.SOCK_STREAM)
        for sock in (self.client, self.server):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connect_ex(target.address)
        self.up = Flow(self.client, self.server)
        self.down = Flow(self.server, self.client)
        self.flows = (self.up, self.down)
        self.connecting = True
        self.damaged = False  # bytes or a FIN were dropped

    @property
    def finished(self) -> bool:
        return self.up.finished and self.down.finished

    def interests(self) -> Iterator[tuple[socket.socket, int]]:
        """Each socket with the events that the connection waits for."""
        for flow, back in (self.flows, self.flows[::-1]):
            connecting = self.connecting and flow is self.down
            reads = not (flow.ended or connecting) and flow.size < _MAX_BUFFERED_BYTES
            writes = back.blocked or connecting
            yield flow.source, selectors.EVENT_READ * reads | selectors.EVENT_WRITE * writes

    def close(self, *, reset: bool) -> None:
        for sock in (self.client, self.server):
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.close()


class TrafficShaper:
    """Latency and rate of forwarding, and byte counts. Only `counts` is thread-safe."""

    def __init__(self) -> None:
        self.latency = 0.0
        self.rate: float | None = None
        # Held while bytes are sent and counted, so that received bytes are always counted.
        self._sending = threading.Lock()
        self._forwarded = self._delayed = self._throttled = 0

    def counts(self) -> tuple[int, int, int]:
        """Forwarded bytes: all, those with latency, those with a rate limit."""
        with self._sending:
            return self._forwarded, self._delayed, self._throttled

    def send(self, flow: Flow, now: float) -> float:
        """Send bytes that are due; returns the time of the next bytes."""
        flow.blocked = False
        while flow.buffered:
            arrival, data = flow.buffered[0]
            due = max(arrival + self.latency, flow.not_before if self.rate else 0.0)
            if due > now:
                return due
            if not data:
                flow.sink.shutdown(socket.SHUT_WR)
                flow.finished = True
                flow.buffered.clear()
                break
            size = max(1, int(self.rate * _THROTTLE_TICK)) if self.rate else len(data)
            try:
                sent = self._send_counted(flow.sink, data[:size])
            except BlockingIOError:
                flow.blocked = True
                break
            flow.sent(sent)
            flow.not_before = now + sent / self.rate if self.rate else now
        return NEVER

    def _send_counted(self, sink: socket.socket, data: bytes) -> int:
        with self._sending:
            sent = sink.send(data)
            self._forwarded += sent
            self._delayed += sent if self.latency else 0
            self._throttled += sent if self.rate else 0
        return sent


def bind(port: int) -> socket.socket:
    """A socket on the port, or on any free one for 0, that does not listen yet.

    Raises:
        PortTakenError: another process listens there.
    """
    sock = socket.socket()
    sock.setblocking(False)
    # Without this, connections in TIME_WAIT would prevent binding the port again.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
    except OSError as error:
        sock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortTakenError(f"port is taken: {HOST}:{port}", port=port) from None
    return sock
