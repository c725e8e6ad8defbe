"""Exports counters to Prometheus: on a local port, or in a file for the node exporter."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from headwater.errors import InputError, PortTakenError

# Counters have no authentication, so they are reachable from this machine only.
_HOST = "127.0.0.1"


@contextmanager
def serve(registry: CollectorRegistry, port: int) -> Iterator[str]:
    """Serve the counters on a loopback port while the body runs; yields the URL.

    Raises:
        PortTakenError: another process listens there.
    """
    try:
        server, thread = start_http_server(port, _HOST, registry)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise InputError(f"metrics can't be served on port {port}: {error}") from error
        raise PortTakenError(
            f"metrics can't be served: port {port} of {_HOST} is taken",
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
    """Write the counters as text; the file is replaced atomically."""
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise InputError(f"metrics can't be written to {path}: {error.strerror}") from error
