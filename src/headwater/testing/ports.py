"""Ports for services that a test starts."""

from __future__ import annotations

import os
import socket


def free_port() -> int:
    """A loopback port that is free right now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_ports_apart(count: int, step: int) -> int:
    """The first of `count` free loopback ports with this distance.

    Below the ports that the system gives to clients: one of them could take a port while the
    service that owns it restarts.
    """
    for first in range(20_000 + os.getpid() % 5_000, 30_000):
        if all(_is_free(first + step * number) for number in range(count)):
            return first
    raise OSError(f"no {count} free ports with a distance of {step}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
