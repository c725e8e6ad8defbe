"""A TCP proxy on loopback that breaks connections on demand.

One thread owns all sockets. The methods hand their change to it and return when it is in
effect, so a test needs no sleep between a fault and what it expects.
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
from headwater.testing._sockets import NEVER, Connection, Flow, Pace, Target, bind

_READ_BYTES = 64 * 1024
# A change takes microseconds; the bound only keeps a test from hanging on a dead thread.
_ANSWER_SECONDS = 10.0
# A latency may be any number of seconds; the selector takes some weeks at most.
_LOOK_SECONDS = 60.0


class TcpProxy:
    """Forwards `127.0.0.1:port` to a target until it is told to misbehave.

    Use it in a `with` statement. `faults` counts the faults that were asked for; the other
    counters say what they did, so that a test can prove that its fault fired.

    Attributes:
        connections: connections accepted so far.
        bytes_swallowed: bytes lost to `half_open`.
        connections_cut: connections that the proxy itself reset.
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
        self._pace = Pace()
        self._open: set[Connection] = set()
        self._changes: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._running = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start to listen; from here on `port` is the real one.

        Raises:
            PortTakenError: somebody else listens on `listen_port`.
        """
        self._resolved = Target.resolve(*self._target)
        self._listener = bind(self.port)
        self.port = self._listener.getsockname()[1]
        self._waker, self._wakened = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._watch(self._wakened, selectors.EVENT_READ)
        self._listen()
        self._running = True
        self._thread = threading.Thread(target=self._run, name="tcp-proxy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def bytes_forwarded(self) -> int:
        """Bytes passed on, both directions together."""
        return self._pace.counts()[0]

    @property
    def bytes_delayed(self) -> int:
        """Bytes passed on under `latency`."""
        return self._pace.counts()[1]

    @property
    def bytes_throttled(self) -> int:
        """Bytes passed on under `throttle`."""
        return self._pace.counts()[2]

    def close(self) -> None:
        """Close every socket and end the thread. Twice is harmless."""
        if self._thread is None:
            return
        if self._thread.is_alive():
            self._apply(self._stop)
            self._thread.join(_ANSWER_SECONDS)
        # Not by the thread: it may see the change, and end, before `_apply` has woken it.
        self._waker.close()
        self._wakened.close()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `restore`."""
        self._apply(self._cut, fault="cut")

    def half_open(self) -> None:
        """Keep connections, take new ones, and swallow all bytes and FINs of both sides."""
        self._apply(self._swallow, fault="half_open")

    def latency(self, seconds: float) -> None:
        """Pass bytes on this much later, in each direction; 0 ends it."""
        if not 0 <= seconds < NEVER:
            raise InputError(f"latency is not a number of seconds: {seconds}", value=seconds)
        fault = "latency" if seconds else None
        self._apply(lambda: self._slow(seconds, self._pace.rate), fault)

    def throttle(self, bytes_per_second: float | None) -> None:
        """Pass on at most this much, per direction of each connection; None ends it."""
        rate = bytes_per_second
        if rate is not None and not 0 < rate < NEVER:
            raise InputError(f"throttle is not a number of bytes per second: {rate}", value=rate)
        fault = "throttle" if rate else None
        self._apply(lambda: self._slow(self._pace.latency, rate), fault)

    def restore(self) -> None:
        """End all faults.

        A connection that lost bytes to `half_open` is reset, and counted as cut: to go on would
        show its reader a stream with a hole, which TCP never does.
        """
        self._apply(self._restore)

    def _apply(self, change: Callable[[], None], fault: str | None = None) -> None:
        if self._thread is None or not self._thread.is_alive():
            raise InputError("the proxy is not running", hint="use it in a `with` statement")
        done: Future[None] = Future()
        self._changes.put((change, done))
        self._waker.send(b"!")
        done.result(_ANSWER_SECONDS)
        if fault is not None:
            self.faults[fault] += 1

    # From here on everything runs in the proxy's thread.

    def _run(self) -> None:
        try:
            due = NEVER
            while self._running:
                wait = min(max(0.0, due - time.monotonic()), _LOOK_SECONDS)
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
            pass  # a client that is connected already is cut and counted, too
        for connection in list(self._open):
            self._reset(connection)
        self._watch(self._listener, 0)
        self._listener.close()
        # Bound without listening: the kernel refuses clients, and the port stays ours.
        self._listener = bind(self.port)

    def _swallow(self) -> None:
        self._half_open = True
        for connection in self._open:
            for flow in connection.flows:
                connection.damaged |= bool(flow.held)
                self.bytes_swallowed += flow.drop()

    def _slow(self, latency: float, rate: float | None) -> None:
        self._pace.latency, self._pace.rate = latency, rate

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
        connection: Connection = key.data
        if key.fileobj is self._wakened:
            self._wakened.recv(_READ_BYTES)
        elif key.fileobj is self._listener:
            self._accept()
        elif connection in self._open:  # else closed by an event of the same round
            if connection.connecting and key.fileobj is connection.server:
                connection.connecting = False  # or refused: the first read will say so
            elif events & selectors.EVENT_READ:
                flow = connection.up if key.fileobj is connection.client else connection.down
                self._read(connection, flow)

    def _accept(self) -> bool:
        try:
            client, _ = self._listener.accept()
        except OSError:  # nobody waits, or the listener is cut
            return False
        self._open.add(Connection(client, self._resolved))
        self.connections += 1
        return True

    def _read(self, connection: Connection, flow: Flow) -> None:
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
            flow.hold(time.monotonic(), data)

    def _lost(self, connection: Connection, flow: Flow) -> None:
        """The source of `flow` is gone without a FIN: pass that on, unless it is swallowed."""
        if self._half_open:
            flow.ended = connection.damaged = True
        else:
            self._drop(connection, reset=True)

    def _advance(self, connection: Connection) -> float:
        """Send what is due; return when there is more to do without an event."""
        now = time.monotonic()
        try:
            flows = () if connection.connecting else connection.flows
            due = min((self._pace.send(flow, now) for flow in flows), default=NEVER)
        except OSError:
            self._drop(connection, reset=True)
            return NEVER
        if connection.finished:
            self._drop(connection)
            return NEVER
        for sock, events in connection.awaited():
            self._watch(sock, events, connection)
        return due

    def _watch(self, sock: socket.socket, events: int, data: Connection | None = None) -> None:
        known = self._selector.get_map().get(sock)
        if known is not None and known.events != events:
            known = None
            self._selector.unregister(sock)
        if known is None and events:
            self._selector.register(sock, events, data)

    def _reset(self, connection: Connection) -> None:
        self.connections_cut += 1
        self._drop(connection, reset=True)

    def _drop(self, connection: Connection, reset: bool = False) -> None:
        self._open.discard(connection)
        for sock in (connection.client, connection.server):
            self._watch(sock, 0)
        connection.close(reset=reset)
