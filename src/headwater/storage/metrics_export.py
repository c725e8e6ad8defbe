"""Where Prometheus finds the counters: a port of this machine, or a file for its node exporter."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from headwater.errors import InputError, PortTakenError

# Counters need no password; so nobody else's machine reaches them.
_HOST = "127.0.0.1"


@contextmanager
def serve(registry: CollectorRegistry, port: int) -> Iterator[str]:
    """Answer on a port of loopback while the body runs; gives the address.

    Raises:
        PortTakenError: somebody listens there.
    """
    try:
        server, thread = start_http_server(port, _HOST, registry)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise InputError(f"metrics can't be offered on port {port}: {error}") from error
        raise PortTakenError(
            f"metrics can't be offered: port {port} of {_HOST} is taken",
            hint="choose another --metrics-port",
            port=port,
        ) from error
    try:
        yield f"http://{_HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def write_file(registry: CollectorRegistry, path: Path) -> None:
    """Write the counters as text; a reader sees the old file or the new one, never half of one."""
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise InputError(f"metrics can't be written to {path}: {error.strerror}") from error
