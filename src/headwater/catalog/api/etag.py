"""Answers that have not changed since they were last asked for are not sent again.

The page asks every few seconds; a browser that has the answer sends its tag, and gets 304.
"""

from __future__ import annotations

import hashlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# An answer that is larger is sent on as it comes: a graph of 5,000 nodes has about half of it.
_MAX_BYTES = 32 * 1024 * 1024


class Unchanged:
    """Gives successful answers to GET a tag of their content, and answers 304 to who has it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        known = dict(scope["headers"]).get(b"if-none-match", b"")
        held: list[Message] = []
        passing = False

        async def hold(message: Message) -> None:
            nonlocal passing
            if message["type"] == "http.response.start" and message["status"] != 200:
                passing = True
            if passing:
                await send(message)
                return
            held.append(message)
            size = sum(len(each.get("body", b"")) for each in held)
            if message.get("more_body") and size > _MAX_BYTES:
                passing = True
                for each in held:
                    await send(each)
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                await _finish(held, known, send)

        await self._app(scope, receive, hold)


async def _finish(held: list[Message], known: bytes, send: Send) -> None:
    start, *bodies = held
    body = b"".join(each.get("body", b"") for each in bodies)
    # Weak: the same content, whether or not it is packed on its way.
    tag = b'W/"' + hashlib.blake2b(body, digest_size=16).hexdigest().encode() + b'"'
    # Asked for anew each time, and kept by nobody in between: answers depend on the key.
    more = [(b"etag", tag), (b"cache-control", b"private, no-cache"), (b"vary", b"authorization")]
    if tag in known:
        await send({"type": "http.response.start", "status": 304, "headers": more})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({**start, "headers": [*start["headers"], *more]})
    await send({"type": "http.response.body", "body": body})
