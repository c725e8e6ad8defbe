"""A TCP proxy on loopback that injects faults on demand.

One thread owns all sockets. Methods pass changes to it and return when they are in effect, so a
test needs no sleep after a fault.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Self

from headwater.errors import InputError
from headwater.testing._sockets import (
    NEVER,
    Flow,
    ProxiedConnection,
    ServerAddress,
    TrafficShaper,
    bind,
)

_READ_BYTES = 64 * 1024
# A change takes microseconds; the limit keeps a test from hanging on a dead thread.
_APPLY_SECONDS = 10.0
# A latency may be any number of seconds; the selector accepts at most some weeks.
_MAX_WAIT_SECONDS = 60.0


class TcpProxy:
    """Forwards `127.0.0.1:port` to a target, with faults on demand.

    Use it in a `with` statement. `faults` counts the requested faults; the other counters show
    their effect, so that a test can prove that its fault occurred.

    Attributes:
        connections: connections accepted so far.
        bytes_swallowed: bytes dropped by `half_open`.
        connections_cut: connections that the proxy reset.
        faults: how often each of `cut`, `half_open`, `latency` and `throttle` was applied.
    """

    def __init__(self, target_host: str, target_port: int, listen_port: int = 0) -> None:
        self.port = listen_port
        self.connections = 0
        self.bytes_swallowed = 0
        self.connections_cut = 0
        self.faults: Counter[str] = Counter()
        self._target = (target_host, target_port)
        self._half_open = False
        self._shaper = TrafficShaper()
        self._open: set[ProxiedConnection] = set()
        self._changes: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._running = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start to listen; sets `port` to the actual port.

        Raises:
            PortTakenError: another process listens on `listen_port`.
        """
        self._resolved = ServerAddress.resolve(*self._target)
        self._listener = bind(self.port)
        self.port = self._listener.getsockname()[1]
        self._waker, self._wakeup = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._watch(self._wakeup, selectors.EVENT_READ)
        self._listen()
        self._running = True
        self._thread = threading.Thread(target=self._run, name="tcp-proxy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def bytes_forwarded(self) -> int:
        """Forwarded bytes, both directions together."""
        return self._shaper.counts()[0]

    @property
    def bytes_delayed(self) -> int:
        """Bytes forwarded under `latency`."""
        return self._shaper.counts()[1]

    @property
    def bytes_throttled(self) -> int:
        """Bytes forwarded under `throttle`."""
        return self._shaper.counts()[2]

    def close(self) -> None:
        """Close all sockets and end the thread; idempotent."""
        if self._thread is None:
            return
        if self._thread.is_alive():
            self._apply(self._stop)
            self._thread.join(_APPLY_SECONDS)
        # Not closed by the thread: it may end before `_apply` has woken it.
        self._waker.close()
        self._wakeup.close()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `restore`."""
        self._apply(self._cut, fault="cut")

    def half_open(self) -> None:
        """Keep and accept connections, and drop all bytes and FINs of both sides."""
        self._apply(self._swallow, fault="half_open")

    def latency(self, seconds: float) -> None:
        """Delay bytes in each direction; 0 ends it."""
        if not 0 <= seconds < NEVER:
            raise InputError(f"latency is not a number of seconds: {seconds}", value=seconds)
        fault = "latency" if seconds else None
        self._apply(lambda: self._slow(seconds, self._shaper.rate), fault)

    def throttle(self, bytes_per_second: float | None) -> None:
        """Limit the rate per direction of each connection; None ends it."""
        rate = bytes_per_second
        if rate is not None and not 0 < rate < NEVER:
            raise InputError(f"throttle is not a number of bytes per second: {rate}", value=rate)
        fault = "throttle" if rate else None
        self._apply(lambda: self._slow(self._shaper.latency, rate), fault)

    def restore(self) -> None:
        """End all faults.

        A connection that lost bytes to `half_open` is reset, and counted as cut: otherwise its
        reader would see a stream with a hole, which TCP never has.
        """
        self._apply(self._restore)

    def _apply(self, change: Callable[[], None], fault: str | None = None) -> None:
        if self._thread is None or not self._thread.is_alive():
            raise InputError("the proxy is not running", hint="use it in a `with` statement")
        done: Future[None] = Future()
        self._changes.put((change, done))
        self._waker.send(b"!")
        done.result(_APPLY_SECONDS)
        if fault is not None:
            self.faults[fault] += 1

    # The methods below run in the proxy's thread.

    def _run(self) -> None:
        try:
            due = NEVER
            while self._running:
                wait = min(max(0.0, due - time.monotonic()), _MAX_WAIT_SECONDS)
                for key, events in self._selector.select(wait):
                    self._handle(key, events)
                self._make_changes()
                due = min(map(self._advance, list(self._open)), default=NEVER)
        finally:
            for connection in list(self._open):
                self._drop(connection)
            self._listener.close()
            self._selector.close()

    def _make_changes(self) -> None:
        while not self._changes.empty():  # no other thread takes from it
            change, done = self._changes.get()
            try:
                change()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _stop(self) -> None:
        self._running = False

    def _cut(self) -> None:
        while self._accept():
            pass  # clients in the backlog are cut and counted, too
        for connection in list(self._open):
            self._reset(connection)
        self._watch(self._listener, 0)
        self._listener.close()
        # Bound without listening: the kernel refuses clients, and the port stays reserved.
        self._listener = bind(self.port)

    def _swallow(self) -> None:
        self._half_open = True
        for connection in self._open:
            for flow in connection.flows:
                connection.damaged |= bool(flow.buffered)
                self.bytes_swallowed += flow.drop()

    def _slow(self, latency: float, rate: float | None) -> None:
        self._shaper.latency, self._shaper.rate = latency, rate

    def _restore(self) -> None:
        self._half_open = False
        self._slow(0.0, None)
        for connection in list(self._open):
            if connection.damaged:
                self._reset(connection)
        self._listen()

    def _listen(self) -> None:
        self._listener.listen(128)
        self._watch(self._listener, selectors.EVENT_READ)

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        connection: ProxiedConnection = key.data
        if key.fileobj is self._wakeup:
            self._wakeup.recv(_READ_BYTES)
        elif key.fileobj is self._listener:
            self._accept()
        elif connection in self._open:  # else closed by an event of the same iteration
            if connection.connecting and key.fileobj is connection.server:
                connection.connecting = False  # or refused: the first read fails
            elif events & selectors.EVENT_READ:
                flow = connection.up if key.fileobj is connection.client else connection.down
                self._read(connection, flow)

    def _accept(self) -> bool:
        try:
            client, _ = self._listener.accept()
        except OSError:  # no client waits, or the listener is closed
            return False
        self._open.add(ProxiedConnection(client, self._resolved))
        self.connections += 1
        return True

    def _read(self, connection: ProxiedConnection, flow: Flow) -> None:
        try:
            data = flow.source.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._lost(connection, flow)
            return
        if self._half_open:
            self.bytes_swallowed += len(data)
            connection.damaged = True
            flow.ended = not data
        else:
            flow.buffer(time.monotonic(), data)

    def _lost(self, connection: ProxiedConnection, flow: Flow) -> None:
        """The source of `flow` was reset: forward the reset, unless half-open."""
        if self._half_open:
            flow.ended = connection.damaged = True
        else:
            self._drop(connection, reset=True)

    def _advance(self, connection: ProxiedConnection) -> float:
        """Send bytes that are due; returns the time of the next bytes."""
        now = time.monotonic()
        try:
            flows = () if connection.connecting else connection.flows
            due = min((self._shaper.send(flow, now) for flow in flows), default=NEVER)
        except OSError:
            self._drop(connection, reset=True)
            return NEVER
        if connection.finished:
            self._drop(connection)
            return NEVER
        for sock, events in connection.interests():
            self._watch(sock, events, connection)
        return due

    def _watch(
        self, sock: socket.socket, events: int, data: ProxiedConnection | None = None
    ) -> None:
        known = self._selector.get_map().get(sock)
        if known is not None and known.events != events:
            known = None
            self._selector.unregister(sock)
        if known is None and events:
            self._selector.register(sock, events, data)

    def _reset(self, connection: ProxiedConnection) -> None:
        self.connections_cut += 1
        self._drop(connection, reset=True)

    def _drop(self, connection: ProxiedConnection, reset: bool = False) -> None:
        self._open.discard(connection)
        for sock in (connection.client, connection.server):
            self._watch(sock, 0)
        connection.close(reset=reset)
