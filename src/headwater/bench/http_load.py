"""HTTP clients that cost little: the service is to be measured, not they."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

_ANSWER_SECONDS = 60


class Connection:
    """One kept connection to loopback."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> None:
        # Answers about large graphs have several MiB.
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=64 * 1024 * 1024
        )

    async def close(self) -> None:
        self._writer.close()

    async def send(self, request: bytes) -> tuple[int, int]:
        """Status and length of the answer."""
        async with asyncio.timeout(_ANSWER_SECONDS):
            self._writer.write(request)
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            if length:
                await self._reader.readexactly(length)
        return int(head[9:12]), length


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """The bytes of a POST request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get(path: str) -> bytes:
    """The bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def send_all(port: int, requests: Iterator[bytes], clients: int) -> tuple[list[float], int]:
    """Send by several clients at once; seconds of each answer, and how many were no success."""
    seconds: list[float] = []
    refused = 0

    async def client() -> None:
        nonlocal refused
        connection = Connection(port)
        await connection.open()
        for request in requests:
            began = time.perf_counter()
            status, _ = await connection.send(request)
            seconds.append(time.perf_counter() - began)
            refused += status >= 300
        await connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds, refused


async def ask(port: int, path: str, times: int) -> list[float]:
    """Seconds of each answer to the same question, one after the other."""
    connection = Connection(port)
    await connection.open()
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        status, _ = await connection.send(get(path))
        found.append(time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"{path} was answered with {status}")
    await connection.close()
    return found


def percentile(seconds: Sequence[float], share: float) -> float:
    """Of sorted values, in milliseconds."""
    ordered = sorted(seconds)
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 1)
