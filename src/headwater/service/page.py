"""The page's port: the built page, and the API under the same address, so that a browser needs no
permission to call it."""

from __future__ import annotations

from html import escape
from importlib import resources
from pathlib import Path
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.catalog.api.etag import Unchanged
from headwater.catalog.api.service import Service
from headwater.catalog.version import VERSION
from headwater.errors import HeadwaterError

_COUNTS = """
SELECT (SELECT count(*) FROM namespaces WHERE NOT hidden),
    (SELECT count(*) FROM jobs WHERE NOT hidden),
    (SELECT count(*) FROM datasets WHERE NOT hidden AND canonical_id = id),
    (SELECT count(*) FROM runs), (SELECT count(*) FROM events)
"""
# Where the build puts what it names by content.
_BUILT = "assets/"
_NAMES = ("namespaces", "jobs", "datasets", "runs", "events")


def static_folder() -> Path:
    """Where the built page lies in the package."""
    return Path(str(resources.files("headwater.catalog"))) / "static"


class Page:
    """Files of the page, its index for the page's own addresses, and the API below `/api`."""

    def __init__(self, api: FastAPI, folder: Path | None = None) -> None:
        self._api = api
        self._answers: ASGIApp = Unchanged(api)
        self._folder = folder or static_folder()
        index = self._folder / "index.html"
        self._files = StaticFiles(directory=self._folder) if index.is_file() else None
        self._names = {path.name for path in self._folder.glob("*") if path.is_file()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/api/"):
            await self._answers(scope, receive, send)
            return
        response = await self._response(scope)
        await response(scope, receive, send)

    async def _response(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return Response("Method Not Allowed", 405, media_type="text/plain")
        if self._files is None:
            if scope["path"] != "/":
                return Response("Not Found", 404, media_type="text/plain")
            return HTMLResponse(await self._status())
        name = unquote(scope["path"]).lstrip("/")
        built = name.startswith(_BUILT)
        # Any other address belongs to the page, which reads it in the browser. Names of jobs and
        # topics may look like names of files.
        if not built and name not in self._names:
            name = "index.html"
        try:
            response = await self._files.get_response(name, scope)
        except (HTTPException, ValueError):
            # No file, or no path at all: a NUL, or what is no UTF-8.
            return Response("Not Found", 404, media_type="text/plain")
        # Names of built files hold a hash of what is in them.
        fresh = "public, max-age=31536000, immutable" if built else "no-cache"
        response.headers["Cache-Control"] = fresh
        return response

    async def _status(self) -> str:
        """What can be said without a built page: how the service stands, and where to ask."""
        service: Service = self._api.state.service
        rows = [("version", VERSION)]
        try:
            async with service.question() as connection:
                cursor = await connection.execute(_COUNTS)
                counts = await cursor.fetchone()
            rows.append(("database", "reachable"))
            # Where keys are asked for, numbers are for those who have one.
            if counts is not None and not self._api.state.guard.required:
                rows += zip(_NAMES, map(str, counts), strict=True)
        except HeadwaterError as error:
            rows.append(("database", error.message))
        table = "".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>" for n, v in rows)
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            "<title>Headwater lineage</title><h1>Headwater lineage service</h1>"
            f"<table>{table}</table>"
            '<p>API: <a href="/api/v1/namespaces">namespaces</a>, '
            '<a href="/api/v1/jobs">jobs</a>, <a href="/api/v1/openapi.json">description</a></p>'
        )
