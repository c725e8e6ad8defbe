"""Connections that send nothing, half a header, or an offer to switch to HTTP/2."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.catalog_support import Catalog, fresh_database, run_event, running

from headwater.jvm.compiler import compile_java
from headwater.jvm.installed import find_java
from headwater.settings import Settings

OFFER = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"


@pytest.fixture(scope="module")
def limited(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A service with few connections and short timeouts."""
    limits = {"header_seconds": 1.0, "max_connections": 50}
    changed = headwater_settings.catalog.model_copy(update=limits)
    settings = headwater_settings.model_copy(update={"catalog": changed})
    with running(settings, fresh_database(postgres), page=True) as service:
        yield service


def connect(service: Catalog) -> socket.socket:
    port = int(service.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=10)


@contextmanager
def connections(service: Catalog, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(service)) for _ in range(count)]
        for each in opened:
            each.sendall(sent)
        yield opened


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def send_slowly(connection: socket.socket, piece: bytes) -> None:
    for _ in range(300):
        connection.sendall(piece)
        time.sleep(0.1)


def is_healthy(service: Catalog) -> bool:
    return requests.get(f"{service.url}/api/v1/health", timeout=10).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /api/v1/health HTTP/1.1\r\nHost: local"])
def test_health_responds_while_there_are_more_connections_than_allowed(
    limited: Catalog, sent: bytes
) -> None:
    with connections(limited, 80, sent) as opened:
        # The first ones were closed for the later ones.
        assert closed(opened[0])
        assert is_healthy(limited)
        # The others after `header_seconds`; reading from an open one would time out.
        assert all(closed(each) for each in opened)


def test_a_header_that_arrives_byte_by_byte_is_not_waited_for(limited: Catalog) -> None:
    with connect(limited) as slow:
        slow.sendall(b"GET /api/v1/health HTTP/1.1\r\nX-Slow: ")
        began = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_slowly(slow, b"x")
        assert time.monotonic() - began > 0.9


def test_line_ends_between_two_requests_do_not_keep_a_connection(limited: Catalog) -> None:
    with connect(limited) as kept:
        kept.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in kept.recv(4096)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_slowly(kept, b"\r\n")


def test_a_header_without_end_is_refused(limited: Catalog) -> None:
    with connect(limited) as endless:
        endless.sendall(b"GET /api/v1/health HTTP/1.1\r\nX-Long: " + b"x" * 500_000)
        assert b"400" in endless.recv(4096)


def test_a_client_that_is_used_again_and_again_is_not_closed(limited: Catalog) -> None:
    with requests.Session() as session:
        for _ in range(8):
            assert session.get(f"{limited.url}/api/v1/health", timeout=5).status_code == 200
            time.sleep(0.2)


def post(event: Any, *, offer: str = OFFER, chunked: bool = False) -> bytes:
    body = json.dumps(event).encode()
    length = f"Content-Length: {len(body)}"
    if chunked:
        length, body = "Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    header = (
        "POST /api/v1/lineage HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{offer}{length}\r\n\r\n"
    )
    return header.encode() + body


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_an_offer_of_http_2_does_not_lose_the_body(
    limited: Catalog, pieces: int, chunked: bool
) -> None:
    job = f"offer-{pieces}-{chunked}"
    sent = post(run_event(job=job), chunked=chunked)
    size = len(sent) // pieces + 1
    with connect(limited) as client:
        for start in range(0, len(sent), size):
            client.sendall(sent[start : start + size])
            time.sleep(0.02)
        assert client.recv(4096).startswith(b"HTTP/1.1 201")
        # The connection is still usable, and still speaks HTTP/1.1.
        client.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
    assert limited.get(f"/namespaces/tests/jobs/{job}")["latestRun"]["state"] == "COMPLETED"


def test_many_offers_at_once_are_answered_in_order(limited: Catalog) -> None:
    one = f"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n{OFFER}\r\n".encode()
    with connect(limited) as client:
        client.sendall(one * 20)
        answered = b""
        while answered.count(b"HTTP/1.1 200") < 20:
            part = client.recv(65536)
            assert part, answered
            answered += part


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_with_http_2_can_send_an_event(limited: Catalog) -> None:
    event = json.dumps(run_event(job="curl"))
    command = ["curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST"]
    command += ["-H", "Content-Type: application/json", "-d", event]
    done = subprocess.run(
        [*command, f"{limited.url}/api/v1/lineage"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "201"


SEND = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public final class Send {
  private Send() {}

  public static void main(String[] values) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(values[0]))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(values[1]))
            .build();
    HttpResponse<String> response =
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    System.out.println(response.statusCode() + " " + response.body());
  }
}
"""


def test_the_http_client_of_java_can_send_an_event(
    limited: Catalog, headwater_settings: Settings, tmp_path: Path
) -> None:
    source = tmp_path / "Send.java"
    source.write_text(SEND)
    compile_java([source], [], tmp_path / "classes", headwater_settings)
    java = find_java(headwater_settings).binary
    url, event = f"{limited.url}/api/v1/lineage", json.dumps(run_event(job="java"))
    done = subprocess.run(
        [str(java), "-cp", str(tmp_path / "classes"), "Send", url, event],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("201 "), done.stdout + done.stderr
    assert limited.get("/namespaces/tests/jobs/java")["latestRun"]["state"] == "COMPLETED"
