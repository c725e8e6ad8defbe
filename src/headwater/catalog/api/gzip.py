"""Answers are packed for whoever takes them so: a graph of a thousand nodes is a tenth of its size.

Only answers to questions: an event is answered with nothing, and its way must stay short.
"""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

# Below this the headers are most of an answer.
_LEAST_BYTES = 1024
# Beyond this level an answer gets hardly smaller, and takes twice the time. Large ones are packed
# in a thread, and streams of events not at all: Starlette sees to both.
_LEVEL = 4


class Packed:
    """Packs answers to GET with gzip."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._packing: ASGIApp = GZipMiddleware(
            app, minimum_size=_LEAST_BYTES, compresslevel=_LEVEL
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = scope["type"] == "http" and scope["method"] == "GET"
        await (self._packing if asks else self._app)(scope, receive, send)
