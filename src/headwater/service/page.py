"""The page's port: the built page, and the API on the same origin, so that it needs no CORS."""

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

from headwater.catalog.api.middleware import ETagMiddleware
from headwater.catalog.api.service import CatalogService
from headwater.catalog.store import stats
from headwater.catalog.version import VERSION
from headwater.errors import HeadwaterError

# Files of the build whose names contain a hash of their content.
_BUILT = "assets/"


def static_folder() -> Path:
    """The folder of the built page in the package."""
    return Path(str(resources.files("headwater.catalog"))) / "static"


class Page:
    """Serves the files of the page, its index for the URLs of its views, and the API on `/api`."""

    def __init__(self, api: FastAPI, folder: Path | None = None) -> None:
        self._api = api
        self._api_with_etags: ASGIApp = ETagMiddleware(api)
        self._folder = folder or static_folder()
        index = self._folder / "index.html"
        self._files = StaticFiles(directory=self._folder) if index.is_file() else None
        self._names = {path.name for path in self._folder.glob("*") if path.is_file()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/api/"):
            await self._api_with_etags(scope, receive, send)
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
        # Any other path is a view of the page, which the browser renders. Names of jobs and topics
        # in it may look like file names.
        if not built and name not in self._names:
            name = "index.html"
        try:
            response = await self._files.get_response(name, scope)
        except (HTTPException, ValueError):
            # Not a file, or not a valid path: it contains a NUL or is not UTF-8.
            return Response("Not Found", 404, media_type="text/plain")
        cache = "public, max-age=31536000, immutable" if built else "no-cache"
        response.headers["Cache-Control"] = cache
        return response

    async def _status(self) -> str:
        """A status page for an installation without the built page."""
        service: CatalogService = self._api.state.service
        rows = [("version", VERSION)]
        try:
            async with service.query_connection() as connection:
                counts = await stats.totals(connection)
            rows.append(("database", "reachable"))
            # If keys are required, counts are not public.
            if not self._api.state.guard.required:
                rows += [(name, str(count)) for name, count in counts.items()]
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
