"""A faulty catalog for tests: a real socket that sends scripted responses."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# Called with the connection after a complete request.
Answer = Callable[[socket.socket], None]


class FaultServer:
    """Responds to each request with the next answer; the last one repeats."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.events: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def requests(self) -> int:
        return len(self.heads)

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while (request := _read(connection)) is not None:
                head, body = request
                self.heads.append(head)
                if body:
                    self.events.append(json.loads(body))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                answer(connection)


def _read(connection: socket.socket) -> tuple[str, bytes] | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode()
    lengths = [line[15:] for line in text.split("\r\n") if line.startswith("Content-Length:")]
    length = int(lengths[0]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65536)
    return text, body


def status(code: int, text: str = "", *headers: str) -> Answer:
    """A complete response."""
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(text)}", *headers, "", text]
    return lambda connection: connection.sendall("\r\n".join(lines).encode())


def garbage(connection: socket.socket) -> None:
    connection.sendall(b"\x00\xff not HTTP\r\n\r\n")
    connection.close()


def hang(connection: socket.socket) -> None:
    time.sleep(30)


def drip(connection: socket.socket) -> None:
    """Sends a byte every 50 ms, so that no single read times out."""
    for byte in b"HTTP/1.1 201 Created\r\n" + b"X: y\r\n" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


class Endless:
    """Sends a gigabyte, and counts the megabytes that the client received."""

    megabytes = 0

    def __call__(self, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 500 X\r\nContent-Length: 1073741824\r\n\r\n")
        for _ in range(1024):
            connection.sendall(b"x" * 1024 * 1024)
            self.megabytes += 1


@contextlib.contextmanager
def serving(*answers: Answer) -> Iterator[FaultServer]:
    server = FaultServer(*answers)
    try:
        yield server
    finally:
        server.close()
