"""The TCP proxy: transparent without faults, and every fault is counted."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.waiting import wait_until

from headwater.errors import InputError, PortTakenError
from headwater.testing import TcpProxy

pytestmark = pytest.mark.timeout(30)

HOST = "127.0.0.1"
TIMEOUT = 5.0


class EchoServer:
    """Echoes every byte and the FIN; records how connections ended."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._listener.getsockname()[1]
        self.received = 0
        self.endings: list[str] = []
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            self._threads.append(threading.Thread(target=self._echo, args=(peer,), daemon=True))
            self._threads[-1].start()

    def _echo(self, peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    self.received += len(data)
                    peer.sendall(data)
                self.endings.append("fin")
            except ConnectionResetError:
                self.endings.append("reset")
            except OSError:
                self.endings.append("error")

    def close(self) -> None:
        for sock in (self._listener, *self._peers):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()
        for thread in self._threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive()


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    with closing(EchoServer()) as server:
        yield server


@pytest.fixture
def proxy(echo: EchoServer) -> Iterator[TcpProxy]:
    with TcpProxy(HOST, echo.port) as running:
        yield running


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=TIMEOUT)


def connect_and_read(proxy: TcpProxy) -> bytes:
    with connect(proxy) as client:
        return client.recv(1)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := client.recv(65536)):
        data += part
    return data


def echoed(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return receive(client, len(data))


def open_sockets() -> int:
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(entry))
        except FileNotFoundError:
            continue
    return sum(link.startswith(("socket:", "anon_inode:[eventpoll]")) for link in links)


def test_bytes_pass_unchanged_and_are_counted(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        assert echoed(client, b"visit 1") == b"visit 1"
    assert (proxy.connections, proxy.bytes_forwarded, proxy.faults) == (1, 14, {})


def test_megabytes_pass_unchanged_through_several_connections_at_once(proxy: TcpProxy) -> None:
    payload = b"".join(number.to_bytes(4, "big") for number in range(1_000_000))
    digests: list[str] = []

    def exchange() -> None:
        with connect(proxy) as client:
            sender = threading.Thread(target=client.sendall, args=(payload,), daemon=True)
            sender.start()
            digests.append(hashlib.sha256(receive(client, len(payload))).hexdigest())
            sender.join(TIMEOUT)

    threads = [threading.Thread(target=exchange, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert digests == [hashlib.sha256(payload).hexdigest()] * 4
    assert proxy.bytes_forwarded == 2 * 4 * len(payload)


def test_a_stopped_reader_blocks_the_sender(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        client.settimeout(0.5)
        sent, waited = 0, False
        while sent < 200_000_000 and not waited:
            try:
                sent += client.send(bytes(1_000_000))
            except TimeoutError:
                waited = True
        assert waited, "the proxy buffered 200 MB"


def test_a_reader_that_resumes_receives_the_rest() -> None:
    with socket.create_server((HOST, 0)) as server:
        with TcpProxy(HOST, server.getsockname()[1]) as proxy, connect(proxy) as client:
            peer, _ = server.accept()
            with peer:
                size = 30_000_000
                sender = threading.Thread(target=peer.sendall, args=(bytes(size),), daemon=True)
                sender.start()
                time.sleep(0.3)  # until all buffers are full
                while size and (part := client.recv(1_000_000)):
                    size -= len(part)
                sender.join(TIMEOUT)
            assert size == 0


def test_a_fin_of_one_side_leaves_the_other_direction_open(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 100) == b"last words"


def test_a_target_that_is_down_resets_the_client() -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        with TcpProxy(HOST, free.getsockname()[1]) as proxy:
            for _ in range(2):
                with pytest.raises(ConnectionResetError):
                    connect_and_read(proxy)
            assert (proxy.connections, proxy.connections_cut) == (2, 0)
            proxy.half_open()
            with connect(proxy) as client:
                client.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    client.recv(1)


def test_a_reset_of_the_client_reaches_the_server(proxy: TcpProxy, echo: EchoServer) -> None:
    with connect(proxy) as client:
        echoed(client, b"x")
        reset(client)
    wait_until(lambda: len(echo.endings) > 0)
    assert echo.endings == ["reset"]


def test_cut_resets_both_sides_and_refuses_new_connections(
    proxy: TcpProxy, echo: EchoServer
) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        echoed(first, b"x")
        echoed(second, b"y")
        proxy.cut()
        for client in (first, second):
            with pytest.raises(ConnectionResetError):
                client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    wait_until(lambda: echo.endings == ["reset", "reset"])
    assert (proxy.faults, proxy.connections_cut) == ({"cut": 1}, 2)


def test_cut_counts_a_connection_that_was_just_made(proxy: TcpProxy) -> None:
    for round_ in range(1, 51):
        with connect(proxy) as client:
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert proxy.connections_cut == proxy.connections == round_
        proxy.restore()


def test_restore_after_a_cut_serves_the_same_port_again(proxy: TcpProxy) -> None:
    port = proxy.port
    for _ in range(3):
        with connect(proxy) as client:
            assert echoed(client, b"again") == b"again"
            proxy.cut()
            proxy.cut()
        proxy.restore()
    with connect(proxy) as client:
        assert echoed(client, b"again") == b"again"
    assert (proxy.port, proxy.faults["cut"], proxy.connections_cut) == (port, 6, 3)


def test_the_port_stays_reserved_while_it_is_cut(proxy: TcpProxy) -> None:
    proxy.cut()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, proxy.port))


def test_half_open_drops_both_directions_without_closing(proxy: TcpProxy, echo: EchoServer) -> None:
    with connect(proxy) as client:
        assert echoed(client, b"before") == b"before"
        proxy.half_open()
        client.sendall(b"into the void")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        wait_until(lambda: proxy.bytes_swallowed == len(b"into the void"))
    time.sleep(0.1)
    assert (echo.received, echo.endings) == (len(b"before"), [])
    assert (proxy.faults, proxy.connections_cut) == ({"half_open": 1}, 0)


def test_half_open_drops_bytes_and_fin_of_the_server() -> None:
    with socket.create_server((HOST, 0)) as server:
        with TcpProxy(HOST, server.getsockname()[1]) as proxy, connect(proxy) as client:
            peer, _ = server.accept()
            proxy.half_open()
            with peer:
                peer.sendall(b"pushed")
            wait_until(lambda: proxy.bytes_swallowed == 6)
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(1)


def test_half_open_drops_a_reset_until_it_is_restored(proxy: TcpProxy, echo: EchoServer) -> None:
    with connect(proxy) as client:
        echoed(client, b"x")
        proxy.half_open()
        reset(client)
    time.sleep(0.2)
    assert echo.endings == []
    proxy.restore()
    wait_until(lambda: echo.endings == ["reset"])


def test_half_open_accepts_new_connections_and_never_responds(proxy: TcpProxy) -> None:
    proxy.half_open()
    with connect(proxy) as client:
        client.sendall(b"hello?")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert (proxy.bytes_swallowed, proxy.bytes_forwarded) == (6, 0)


def test_half_open_drops_bytes_in_flight(proxy: TcpProxy) -> None:
    proxy.latency(60)
    with connect(proxy) as client:
        client.sendall(b"in flight")
        time.sleep(0.1)
        proxy.half_open()
        wait_until(lambda: proxy.bytes_swallowed == 9)
        assert proxy.bytes_forwarded == 0


def test_restore_resets_a_damaged_connection_and_keeps_an_intact_one(proxy: TcpProxy) -> None:
    with connect(proxy) as damaged, connect(proxy) as intact:
        echoed(damaged, b"x")
        echoed(intact, b"y")
        proxy.half_open()
        damaged.sendall(b"lost")
        wait_until(lambda: proxy.bytes_swallowed == 4)
        proxy.restore()
        with pytest.raises(ConnectionResetError):
            damaged.recv(1)
        assert echoed(intact, b"still here") == b"still here"
    assert proxy.connections_cut == 1


def test_latency_delays_each_direction(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        echoed(client, b"warm")
        proxy.latency(0.15)
        start = time.monotonic()
        assert echoed(client, b"slow") == b"slow"
        assert 0.3 <= time.monotonic() - start < TIMEOUT
    assert (proxy.faults, proxy.bytes_delayed) == ({"latency": 1}, 8)


def test_latency_delays_but_does_not_serialise(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        proxy.latency(0.2)
        start = time.monotonic()
        for _ in range(20):
            client.sendall(b"x")
            time.sleep(0.005)
        assert receive(client, 20) == b"x" * 20
        # One wait per direction; one per chunk would be 20 * 0.2 s.
        assert 0.4 <= time.monotonic() - start < 2


def test_ending_latency_releases_delayed_bytes(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        proxy.latency(1e12)
        client.sendall(b"waiting")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.latency(0)
        client.settimeout(TIMEOUT)
        assert receive(client, 7) == b"waiting"
    assert proxy.faults == {"latency": 1}


def test_throttle_limits_the_rate_of_a_connection(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        echoed(client, b"warm")
        proxy.throttle(20_000)
        start = time.monotonic()
        assert echoed(client, b"x" * 10_000) == b"x" * 10_000
        # The last tick of 0.02 s needs no wait; the two directions overlap.
        assert 0.45 <= time.monotonic() - start < TIMEOUT
    assert (proxy.faults, proxy.bytes_throttled) == ({"throttle": 1}, 20_000)


def test_ending_throttle_releases_delayed_bytes(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        proxy.throttle(10)
        client.sendall(b"x" * 10_000)
        assert receive(client, 1) == b"x"
        proxy.throttle(None)
        assert len(receive(client, 9_999)) == 9_999


def test_restore_ends_every_fault(proxy: TcpProxy) -> None:
    proxy.latency(60)
    proxy.throttle(1)
    proxy.half_open()
    proxy.cut()
    proxy.restore()
    with connect(proxy) as client:
        assert echoed(client, b"x" * 1000) == b"x" * 1000
    assert proxy.faults == {"latency": 1, "throttle": 1, "half_open": 1, "cut": 1}


@pytest.mark.parametrize("fault", ["none", "cut", "half_open", "latency", "throttle"])
def test_close_ends_the_thread_and_all_sockets(echo: EchoServer, fault: str) -> None:
    threads, sockets = set(threading.enumerate()), open_sockets()
    proxy = TcpProxy(HOST, echo.port)
    with proxy:
        clients = [connect(proxy) for _ in range(5)]
        wait_until(lambda: proxy.connections == 5)
        if fault == "latency":
            proxy.latency(60)
        elif fault == "throttle":
            proxy.throttle(1)
        elif fault != "none":
            getattr(proxy, fault)()
        for client in clients[:3]:
            if fault != "cut":
                client.sendall(b"unfinished")
            client.close()
    for client in clients:
        client.close()
    proxy.close()
    assert not [each for each in threading.enumerate() if each.name == "tcp-proxy"]
    # The server's threads and sockets end a moment later.
    wait_until(lambda: set(threading.enumerate()) <= threads and open_sockets() <= sockets)


def test_closed_connections_leave_no_socket(proxy: TcpProxy) -> None:
    sockets = open_sockets()
    for _ in range(50):
        with connect(proxy) as client:
            assert echoed(client, b"x") == b"x"
    wait_until(lambda: open_sockets() <= sockets)


def test_an_idle_proxy_uses_no_cpu(proxy: TcpProxy) -> None:
    with connect(proxy) as ended, connect(proxy) as client:
        echoed(client, b"warm")
        proxy.half_open()
        ended.close()
        proxy.latency(60)
        start = time.process_time()
        time.sleep(0.4)
        assert time.process_time() - start < 0.2


def test_the_error_names_a_port_that_is_taken(proxy: TcpProxy) -> None:
    with pytest.raises(PortTakenError, match=str(proxy.port)), TcpProxy(HOST, 1, proxy.port):
        pass


def test_a_port_can_be_chosen_and_reused_immediately(echo: EchoServer) -> None:
    with TcpProxy(HOST, echo.port) as first, connect(first) as client:
        echoed(client, b"x")
    with TcpProxy("localhost", echo.port, listen_port=first.port) as second:
        assert second.port == first.port
        with connect(second) as client:
            assert echoed(client, b"y") == b"y"


def test_a_fault_needs_a_running_proxy(echo: EchoServer) -> None:
    proxy = TcpProxy(HOST, echo.port)
    with pytest.raises(InputError, match="not running"):
        proxy.cut()
    with proxy:
        pass
    with pytest.raises(InputError, match="not running"):
        proxy.restore()
    assert proxy.faults == {}


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_invalid_values_are_refused_and_not_counted(proxy: TcpProxy, value: float) -> None:
    with pytest.raises(InputError, match="seconds"):
        proxy.latency(value)
    with pytest.raises(InputError, match="bytes per second"):
        proxy.throttle(value)
    assert proxy.faults == {}
