"""Puts the service together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import Response
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from headwater.catalog.api import alert_routes as watch_routes
from headwater.catalog.api import (
    dataset_routes,
    graph_routes,
    ingest_routes,
    job_routes,
    problems,
    run_routes,
    search_routes,
)
from headwater.catalog.api import namespace_routes as catalogue_routes
from headwater.catalog.api import schemas as shapes
from headwater.catalog.api.guard import Guard, authorise
from headwater.catalog.api.gzip import Packed
from headwater.catalog.api.middleware import Wire
from headwater.catalog.api.problems import json_response
from headwater.catalog.api.service import Service
from headwater.catalog.version import VERSION
from headwater.service import record_routes
from headwater.service.record_query_pool import RecordQueryPool, RecordQuestions
from headwater.settings import Settings

_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": shapes.Error} for code in (400, 401, 403, 404, 413, 422, 429, 503)
}


def create_api(settings: Settings, url: str, questions: RecordQuestions | None = None) -> FastAPI:
    """All routes. It opens the database when it is started.

    Args:
        questions: who answers about single records; without, these routes answer 404.
    """
    service = Service(settings, url)
    records = RecordQueryPool(questions)

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
        # The document is a route like any other, with a rule of its own.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    api.state.service = service
    api.state.guard = Guard(settings.catalog)
    api.state.records = records
    # The busiest first: routes are tried in their order.
    api.include_router(ingest_routes.router)
    api.include_router(graph_routes.router)
    api.include_router(record_routes.router)
    api.include_router(job_routes.router)
    api.include_router(run_routes.router)
    api.include_router(dataset_routes.router)
    api.include_router(catalogue_routes.router)
    api.include_router(search_routes.router)
    api.include_router(search_routes.v2_router)
    api.include_router(watch_routes.router)
    api.include_router(watch_routes.plain_router)
    api.include_router(_document_route(api))
    problems.install(api)
    return api


def create_app(
    settings: Settings, url: str, questions: RecordQuestions | None = None
) -> tuple[FastAPI, ASGIApp]:
    """The routes, and the same behind all that guards them."""
    api = create_api(settings, url, questions)
    return api, behind_guards(api, api, settings)


def behind_guards(app: ASGIApp, api: FastAPI, settings: Settings) -> ASGIApp:
    """What every request passes on its way to the routes or the page, and every answer back."""
    if settings.catalog.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(settings.catalog.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return Wire(Packed(app), settings.catalog, keys_required=api.state.guard.required)


def _document_route(api: FastAPI) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["catalog"])

    @router.get("/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return json_response(api.openapi())

    return router
