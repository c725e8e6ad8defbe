"""HTTP clients with little overhead, to measure the service and not the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

_RESPONSE_SECONDS = 60


class LoadConnection:
    """A persistent connection to loopback."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> None:
        # Responses with large graphs have several MiB.
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=64 * 1024 * 1024
        )

    async def close(self) -> None:
        self._writer.close()

    async def send(self, request: bytes) -> tuple[int, int]:
        """Send a request; returns status and length of the response."""
        async with asyncio.timeout(_RESPONSE_SECONDS):
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
    """Send with several concurrent clients; returns the latencies and the number of failures."""
    seconds: list[float] = []
    refused = 0

    async def client() -> None:
        nonlocal refused
        connection = LoadConnection(port)
        await connection.open()
        for request in requests:
            began = time.perf_counter()
            status, _ = await connection.send(request)
            seconds.append(time.perf_counter() - began)
            refused += status >= 300
        await connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds, refused


async def time_requests(port: int, path: str, times: int) -> list[float]:
    """Latencies in seconds of the same GET request, sent `times` times one after the other."""
    connection = LoadConnection(port)
    await connection.open()
    seconds: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        status, _ = await connection.send(get(path))
        seconds.append(time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"{path} returned status {status}")
    await connection.close()
    return seconds


def percentile(seconds: Sequence[float], share: float) -> float:
    """A percentile in milliseconds."""
    ordered = sorted(seconds)
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 1)
