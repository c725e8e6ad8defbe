"""The service has all routes of Marquez 0.51, with their parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DOCUMENT = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "openapi.json").read_text()
)

ROUTES = [
    ("GET", "/api/v1/column-lineage"),
    ("GET", "/api/v1/events/lineage"),
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs/runs/{id}"),
    ("POST", "/api/v1/jobs/runs/{id}/abort"),
    ("POST", "/api/v1/jobs/runs/{id}/complete"),
    ("GET", "/api/v1/jobs/runs/{id}/facets"),
    ("POST", "/api/v1/jobs/runs/{id}/fail"),
    ("POST", "/api/v1/jobs/runs/{id}/start"),
    ("GET", "/api/v1/lineage"),
    ("POST", "/api/v1/lineage"),
    ("GET", "/api/v1/namespaces"),
    ("DELETE", "/api/v1/namespaces/{namespace}"),
    ("GET", "/api/v1/namespaces/{namespace}"),
    ("PUT", "/api/v1/namespaces/{namespace}"),
    ("GET", "/api/v1/namespaces/{namespace}/datasets"),
    ("DELETE", "/api/v1/namespaces/{namespace}/datasets/{dataset}"),
    ("GET", "/api/v1/namespaces/{namespace}/datasets/{dataset}"),
    ("PUT", "/api/v1/namespaces/{namespace}/datasets/{dataset}"),
    ("DELETE", "/api/v1/namespaces/{namespace}/datasets/{dataset}/fields/{field}/tags/{tag}"),
    ("POST", "/api/v1/namespaces/{namespace}/datasets/{dataset}/fields/{field}/tags/{tag}"),
    ("DELETE", "/api/v1/namespaces/{namespace}/datasets/{dataset}/tags/{tag}"),
    ("POST", "/api/v1/namespaces/{namespace}/datasets/{dataset}/tags/{tag}"),
    ("GET", "/api/v1/namespaces/{namespace}/datasets/{dataset}/versions"),
    ("GET", "/api/v1/namespaces/{namespace}/datasets/{dataset}/versions/{version}"),
    ("GET", "/api/v1/namespaces/{namespace}/jobs"),
    ("DELETE", "/api/v1/namespaces/{namespace}/jobs/{job}"),
    ("GET", "/api/v1/namespaces/{namespace}/jobs/{job}"),
    ("PUT", "/api/v1/namespaces/{namespace}/jobs/{job}"),
    ("GET", "/api/v1/namespaces/{namespace}/jobs/{job}/runs"),
    ("POST", "/api/v1/namespaces/{namespace}/jobs/{job}/runs"),
    ("DELETE", "/api/v1/namespaces/{namespace}/jobs/{job}/tags/{tag}"),
    ("POST", "/api/v1/namespaces/{namespace}/jobs/{job}/tags/{tag}"),
    ("GET", "/api/v1/namespaces/{namespace}/jobs/{job}/versions"),
    ("GET", "/api/v1/namespaces/{namespace}/jobs/{job}/versions/{version}"),
    ("GET", "/api/v1/runlineage/upstream"),
    ("GET", "/api/v1/search"),
    ("GET", "/api/v1/sources"),
    ("GET", "/api/v1/sources/{source}"),
    ("PUT", "/api/v1/sources/{source}"),
    ("GET", "/api/v1/stats/datasets"),
    ("GET", "/api/v1/stats/jobs"),
    ("GET", "/api/v1/stats/lineage-events"),
    ("GET", "/api/v1/stats/sources"),
    ("GET", "/api/v1/tags"),
    ("PUT", "/api/v1/tags/{name}"),
    ("GET", "/api/v2beta/search/datasets"),
    ("GET", "/api/v2beta/search/jobs"),
]

# Route -> its query parameters.
PARAMETERS = {
    "/api/v1/column-lineage": {"nodeId", "depth", "withDownstream"},
    "/api/v1/events/lineage": {"before", "after", "sortDirection", "limit", "offset"},
    "/api/v1/jobs": {"lastRunStates", "limit", "offset"},
    "/api/v1/jobs/runs/{id}/facets": {"type"},
    "/api/v1/lineage": {"nodeId", "depth"},
    "/api/v1/namespaces": {"limit", "offset"},
    "/api/v1/namespaces/{namespace}/jobs": {"lastRunStates", "limit", "offset"},
    "/api/v1/runlineage/upstream": {"runId", "depth"},
    "/api/v1/search": {"q", "filter", "sort", "limit", "namespace", "before", "after"},
    "/api/v1/stats/jobs": {"period", "timezone"},
}


def test_the_list_has_all_48_routes() -> None:
    assert len(set(ROUTES)) == 48


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_of_marquez_is_served(method: str, path: str) -> None:
    assert method.lower() in DOCUMENT["paths"][path]


@pytest.mark.parametrize("path", PARAMETERS)
def test_a_route_takes_the_parameters_of_marquez(path: str) -> None:
    listed = DOCUMENT["paths"][path]["get"]["parameters"]
    assert PARAMETERS[path] <= {each["name"] for each in listed if each["in"] == "query"}
