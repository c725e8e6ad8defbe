"""Assembles the application: routes, error handlers and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import Response
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from headwater.catalog.api import (
    alert_routes,
    dataset_routes,
    graph_routes,
    health_routes,
    ingest_routes,
    job_routes,
    namespace_routes,
    problems,
    run_routes,
    schemas,
    search_routes,
)
from headwater.catalog.api.guard import Guard, authorise
from headwater.catalog.api.middleware import (
    CompressionMiddleware,
    HangUpMiddleware,
    SecurityMiddleware,
)
from headwater.catalog.api.problems import json_response
from headwater.catalog.api.service import CatalogService
from headwater.catalog.version import VERSION
from headwater.service import record_routes
from headwater.service.record_query_pool import RecordQueries, RecordQueryPool
from headwater.settings import Settings

_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Error} for code in (400, 401, 403, 404, 413, 422, 429, 503)
}


def create_api(settings: Settings, url: str, queries: RecordQueries | None = None) -> FastAPI:
    """Create the application with all routes. Its lifespan opens the database.

    Args:
        queries: answers queries about single records; without it these routes respond 404.
    """
    service = CatalogService(settings, url)
    records = RecordQueryPool(queries)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.open()
        try:
            yield
        finally:
            records.close()
            await service.close()

    api = FastAPI(
        title="Headwater lineage service",
        description="OpenLineage events in, Marquez's API out.",
        version=VERSION,
        lifespan=lifespan,
        dependencies=[Depends(authorise)],
        responses=_ERRORS,
        redirect_slashes=False,
        # Served by a route below, so that it has a rule like any other route.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    api.state.service = service
    api.state.guard = Guard(settings.catalog)
    api.state.records = records
    # The busiest first: routes are matched in this order.
    api.include_router(ingest_routes.router)
    api.include_router(graph_routes.router)
    api.include_router(record_routes.router)
    api.include_router(job_routes.router)
    api.include_router(run_routes.router)
    api.include_router(dataset_routes.router)
    api.include_router(health_routes.router)
    api.include_router(namespace_routes.router)
    api.include_router(search_routes.router)
    api.include_router(search_routes.v2_router)
    api.include_router(alert_routes.router)
    api.include_router(alert_routes.plain_router)
    api.include_router(_document_route(api))
    problems.install(api)
    return api


def create_app(
    settings: Settings, url: str, queries: RecordQueries | None = None
) -> tuple[FastAPI, ASGIApp]:
    """The application, and the same wrapped in its middleware."""
    api = create_api(settings, url, queries)
    return api, with_middleware(api, api, settings)


def with_middleware(app: ASGIApp, api: FastAPI, settings: Settings) -> ASGIApp:
    """Wrap the API, or the page, in CORS, compression and security middleware."""
    if settings.catalog.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(settings.catalog.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app = HangUpMiddleware(CompressionMiddleware(app))
    return SecurityMiddleware(app, settings.catalog, keys_required=api.state.guard.required)


def _document_route(api: FastAPI) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["catalog"])

    @router.get("/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return json_response(api.openapi())

    return router
