"""Runs the service until a signal: the API on one port, the page on another."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.catalog.api.readiness import Readiness
from headwater.catalog.store import migrate
from headwater.errors import PortTakenError, SettingError
from headwater.service.app import create_app, with_middleware
from headwater.service.http_protocol import protocol_class
from headwater.service.page import Page
from headwater.service.record_query_pool import RecordQueries
from headwater.settings import Settings
from headwater.settings.catalog import CatalogSettings

_LOG = logging.getLogger("headwater.catalog")
# Longer than the 15 s of Headwater's clients, so that they do not reuse a connection that the
# server is closing.
_KEEP_ALIVE_SECONDS = 30
_STOP_SECONDS = 10
# Files besides connections of clients: database, Kafka, archives, libraries, logs.
_OTHER_FILES = 300


class _Server(uvicorn.Server):
    """Installs no signal handlers: `_serve` handles signals for both servers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _DrainMiddleware:
    """Closes the connection of every response while the service stops.

    Clients that keep connections open would otherwise stay with this service until it ends.
    """

    def __init__(self, app: ASGIApp, readiness: Readiness) -> None:
        self._app = app
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start" and self._readiness.stopping:
                headers = [*message.get("headers", []), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_and_close)


def serve(settings: Settings, url: str, queries: RecordQueries | None = None) -> None:
    """Run until SIGTERM or SIGINT. Accepted events are stored before it returns.

    After a signal the service is no longer ready. It closes its ports `drain_seconds` later, or at
    a second signal; requests that are in flight then have 10 s to complete.

    Raises:
        UnsupportedVersionError: the database belongs to a newer Headwater.
        DatabaseUnavailableError: the database does not respond.
    """
    catalog = settings.catalog
    _check_tls(catalog)
    _allow_open_files(2 * catalog.max_connections + _OTHER_FILES)
    migrate(url)
    # Loaded modules are never freed, so the collector skips them. The higher thresholds keep
    # responses of thousands of small objects from triggering a hundred collections.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    uvloop.run(_serve(settings, url, queries))


async def _serve(settings: Settings, url: str, queries: RecordQueries | None) -> None:
    catalog = settings.catalog
    api, app = create_app(settings, url, queries)
    readiness = api.state.service.readiness
    page = with_middleware(Page(api), api, settings)
    servers = [
        _Server(_config(_DrainMiddleware(app, readiness), catalog, catalog.port)),
        _Server(_config(_DrainMiddleware(page, readiness), catalog, catalog.page_port)),
    ]
    _stop_at_signal(servers, readiness, catalog.drain_seconds)
    _log_start(catalog, required=api.state.guard.required)
    async with api.router.lifespan_context(api):
        try:
            await asyncio.gather(*(server.serve() for server in servers))
        except SystemExit:
            # Raised by Uvicorn if it can't listen; its log contains the reason.
            raise PortTakenError(
                f"can't listen on {catalog.host}:{catalog.port} or :{catalog.page_port}",
                hint="choose HEADWATER_CATALOG__PORT and HEADWATER_CATALOG__PAGE_PORT",
            ) from None


def _stop_at_signal(servers: list[_Server], readiness: Readiness, drain_seconds: float) -> None:
    loop = asyncio.get_running_loop()

    def close() -> None:
        for server in servers:
            server.should_exit = True

    def stop() -> None:
        if readiness.stopping or not drain_seconds:
            close()
        else:
            _LOG.info("stopping: no longer ready, the ports close in %g s", drain_seconds)
            loop.call_later(drain_seconds, close)
        readiness.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def _config(app: Any, catalog: CatalogSettings, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=catalog.host,
        port=port,
        loop="none",
        http=protocol_class(catalog.header_seconds, catalog.max_connections),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=catalog.max_connections,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_certfile=str(catalog.tls_certificate) if catalog.tls_certificate else None,
        ssl_keyfile=str(catalog.tls_key) if catalog.tls_key else None,
    )


def _allow_open_files(number: int) -> None:
    """Raise the soft limit of this process: a connection is a file, and the default is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < number:
        _LOG.warning(
            "only %d files may be open, %d are needed for HEADWATER_CATALOG__MAX_CONNECTIONS on "
            "both ports: raise `ulimit -n`, or lower the setting",
            allowed,
            number,
        )


def _check_tls(catalog: CatalogSettings) -> None:
    if (catalog.tls_certificate is None) != (catalog.tls_key is None):
        raise SettingError(
            "only one of HEADWATER_CATALOG__TLS_CERTIFICATE and HEADWATER_CATALOG__TLS_KEY is set"
        )
    if catalog.tls_certificate is None or catalog.tls_key is None:
        return
    for path in (catalog.tls_certificate, catalog.tls_key):
        if not path.is_file():
            raise SettingError(f"no such file for TLS: {path}")
    try:
        # With an empty password, because OpenSSL would otherwise prompt for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            catalog.tls_certificate, catalog.tls_key, password=""
        )
    except (ssl.SSLError, OSError) as error:
        raise SettingError(
            f"{catalog.tls_certificate} and {catalog.tls_key} can't be used for TLS: {error}",
            hint="use a PEM certificate chain, and its private key without a password",
        ) from None


def _log_start(catalog: CatalogSettings, *, required: bool) -> None:
    scheme = "https" if catalog.tls_certificate else "http"
    _LOG.info(
        "API at %s://%s:%d, page at port %d", scheme, catalog.host, catalog.port, catalog.page_port
    )
    if required:
        _LOG.info("API keys are required: `headwater keys create NAME --role read`")
        if scheme == "http":
            _LOG.warning("keys are sent unencrypted: set HEADWATER_CATALOG__TLS_CERTIFICATE")
