"""Requests to the catalog are bounded in every phase and never show the key."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from typing import Any

import pytest
from tests.fault_server import drip, serving, status

from headwater.errors import SettingError
from headwater.openlineage.transport import CatalogClient, DeadlineSocket, Delivered, RetryLater


def test_whitespace_around_a_key_is_not_sent() -> None:
    with serving(status(201)) as server:
        client = CatalogClient(server.url, " s3cr3t-key\n")
        assert isinstance(client.send(b"{}"), Delivered)
        client.close()
    assert "Authorization: Bearer s3cr3t-key\r\n" in server.heads[0] + "\r\n"


@pytest.mark.parametrize("key", ["s3cr3t\nkey", "s3cr3t\x00key", "s3cr3t-ключ", "s3cr3t\x7f"])
def test_an_invalid_key_is_rejected_without_showing_it(key: str) -> None:
    with pytest.raises(SettingError, match="MARQUEZ_API_KEY") as rejected:
        CatalogClient("http://localhost:5000", key)
    assert "s3cr3t" not in f"{rejected.value} {rejected.value.hint}"
    assert rejected.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b:5000",
        f"http://{'a' * 64}:5000",
        "http://[::1",
        "http://localhost:99999",
        "http://local host:5000",
        "http://localhost:5000/my catalog",
        "http://localhost:5000/ä",
        "localhost:5000",
        "http://me:s3cr3t@localhost",
        "http://me:s3/cr3t@[::1",
    ],
)
def test_an_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(SettingError) as rejected:
        CatalogClient(url)
    assert "MARQUEZ_URL" in f"{rejected.value} {rejected.value.hint}"
    assert "s3" not in str(rejected.value)


@pytest.mark.parametrize("error", [ValueError, UnicodeError, RuntimeError])
def test_an_unexpected_error_is_retried_and_its_text_is_not_shown(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error("Invalid header value b'Bearer s3cr3t-key'")

    monkeypatch.setattr(http.client.HTTPConnection, "request", fail)
    with serving(status(201)) as server:
        outcome = CatalogClient(server.url, "s3cr3t-key").send(b"{}")
    assert outcome == RetryLater(f"request to {server.url} failed: {error.__name__}")


def test_a_request_ends_at_its_deadline_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the server sends a byte now and then."""
    with serving(drip) as server:
        client = CatalogClient(server.url, request_seconds=0.4)
        client.send(b"{}")
        before = threading.active_count()
        threads: list[int] = []
        real = DeadlineSocket.before_deadline

        # Called before each wait.
        def counting(timed: DeadlineSocket) -> socket.socket:
            threads.append(threading.active_count())
            return real(timed)

        monkeypatch.setattr(DeadlineSocket, "before_deadline", counting)
        began = time.monotonic()
        outcome = client.send(b"{}")
        assert time.monotonic() - began < 20, "it drips for five minutes"
    assert isinstance(outcome, RetryLater)
    assert "did not respond in time" in outcome.reason
    # The server has one for each connection.
    assert max(threads) <= before + 1


def test_sending_ends_at_its_deadline_when_the_server_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = CatalogClient(f"http://127.0.0.1:{silent.getsockname()[1]}", request_seconds=0.3)
        outcome = client.send(b"x" * 64 * 1024 * 1024)
    assert isinstance(outcome, RetryLater)
    assert "did not respond in time" in outcome.reason


def test_a_large_response_is_read_up_to_the_limit() -> None:
    with serving(status(200, "x" * 300_000)) as server:
        client = CatalogClient(server.url)
        assert len(client.request("GET", "/", max_bytes=1_000_000).text) == 300_000
        assert len(client.request("GET", "/").text) == 64 * 1024
        client.close()


def test_all_addresses_of_a_host_share_the_time_for_connecting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Connections to a listener with a full backlog get no response.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        many: list[Any] = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address)] * 40
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: many)
        began = time.monotonic()
        outcome = CatalogClient("http://catalog.example", connect_seconds=0.5).send(b"{}")
        assert time.monotonic() - began < 10, "a full timeout per address would take twenty seconds"
        assert outcome == RetryLater("http://catalog.example did not respond in time")
        # An unresponsive address and an unsupported one only cost time.
        with serving(status(201)) as server:
            answers = ("127.0.0.1", int(server.url.rpartition(":")[2]))
            unknown = (-7, socket.SOCK_STREAM, 0, "", address)
            many[:] = [many[0], unknown, (*many[0][:4], answers)]
            outcome = CatalogClient("http://catalog.example", connect_seconds=3).send(b"{}")
        assert outcome == Delivered()
        for each in waiting:
            each.close()
