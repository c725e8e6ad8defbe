"""Replays exchanges recorded with Marquez 0.51 and compares the responses, in order.

The recording is an excerpt; `BEFORE` has the requests that are missing from it. Generated times and
ids are normalised, and so is the order of lists, which Marquez does not define. `DIFFERENT` lists
intended differences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import Catalog, run_event

EXAMPLES = [
    json.loads(line)
    for line in (Path(__file__).parent / "marquez-0.51.jsonl").read_text().splitlines()
]
POSTGRES = "/namespaces/postgres%3A%2F%2Fdb.example%3A5432/datasets/shop.public.orders"
RUN_9 = "01900000-0000-7000-8000-000000000009"

# Number of an example -> requests before it that are not in the recording.
BEFORE: dict[str, list[tuple[str, str, Any]]] = {
    "160": [("PUT", "/namespaces/rest-ns", {"ownerName": "me", "description": "d"})],
    "166": [("PUT", "/sources/rest-src", {"type": "POSTGRESQL", "connectionUrl": "jdbc:x"})],
    "169": [
        (
            "PUT",
            "/namespaces/rest-ns/datasets/t1",
            {"type": "DB_TABLE", "physicalName": "t1", "sourceName": "rest-src"},
        ),
        (
            "PUT",
            "/namespaces/rest-ns/jobs/j1",
            {"type": "BATCH", "inputs": [{"namespace": "rest-ns", "name": "t1"}]},
        ),
        (
            "POST",
            "/namespaces/rest-ns/jobs/j1/runs",
            {"id": RUN_9, "nominalStartTime": "2026-11-15T10:00:00Z", "args": {"k": "v"}},
        ),
    ],
    "172": [
        ("POST", f"/jobs/runs/{RUN_9}/start?at=2026-11-15T10:00:00Z", None),
        ("POST", f"/jobs/runs/{RUN_9}/complete", None),
    ],
    "175": [("POST", f"{POSTGRES}/tags/PII", None)],
    "181": [
        ("POST", "/namespaces/golden/jobs/report_by_country/tags/FINANCE", None),
        ("POST", "/namespaces/golden/jobs/report_by_country/tags/NEWTAG2", None),
    ],
    "184": [("DELETE", f"{POSTGRES}/tags/PII", None), ("POST", f"{POSTGRES}/tags/NEWTAG", None)],
    "187": [("DELETE", f"{POSTGRES}/tags/NEWTAG", None)],
    "298": [("DELETE", "/namespaces/golden/jobs/report_by_country", None)],
    "301": [
        (
            "POST",
            "/lineage",
            run_event(
                job="report_by_country",
                namespace="golden",
                run="01900000-0000-7000-8000-0000000000aa",
                at="2026-11-15T14:00:00Z",
                inputs=[{"namespace": "s3://lake", "name": "dw/orders_enriched"}],
            ),
        ),
        ("DELETE", "/namespaces/golden/jobs/report_by_country/tags/FINANCE", None),
    ],
    "304": [
        (
            "DELETE",
            "/namespaces/kafka%3A%2F%2Fbroker.example%3A9092/datasets/clicks_enriched",
            None,
        )
    ],
    "316": [
        (
            "POST",
            "/lineage",
            run_event(
                job="j1",
                namespace="rest-ns",
                run="01900000-0000-7000-8000-0000000000ab",
                at="2026-11-15T14:10:00Z",
            ),
        )
    ],
}

# Where Marquez responds with 500: an invalid request gets one of these, a valid one succeeds.
BAD = (400, 404, 422)
GOOD_DESPITE_500 = {"030", "082", "118"}

# Reasons of intended differences, then examples and paths that differ.
LATE = "a late or repeated RUNNING changes neither the state nor the start of a run"
GRAPH = "a job has its own edges and latest run, from its first event"
ALIAS = "a dataset is listed once, not under each of its names"
CHANGED = "a job has the same fields in a list as alone"
TYPES = "column lineage has the transformation types and the types of inputs"
WRITTEN = "a dataset has the time of its last write, which Marquez omits"
NOMINAL = "a run has the times of the facet nominalTime"
TAGS = "tags of the facet are tags"
AS_SENT = "an event is listed as it was sent, without facets that it does not have"
UNITS = "intervals end at the current time, so the counts differ"
DIFFERENT: list[tuple[str, str, str]] = [
    ("010", r"\.graph.*", GRAPH),
    ("094|097|100|106|274", r".*\.data\.(currentRunUuid|latestRun\..*)", GRAPH),
    (".*", r".*\.(startedAt|durationMs)", LATE),
    (".*", r".*\.lastWrittenAt", WRITTEN),
    ("037|046|058|061|115|295", r".*\.(state|updatedAt)", LATE),
    ("046", r"\.jobs\[\d\]\.(facets|inputs|outputs|labels).*", CHANGED),
    ("040", r"\.(createdAt|updatedAt)", "a namespace is as old as its oldest event"),
    ("055|181|301", r".*\.(inputs|outputs)\b.*", ALIAS),
    ("109", r".*\.(transformation(s|Type)|fieldType)", TYPES),
    ("121", r"\.totalCount", "refused and repeated events are not stored"),
    ("073", r"\.datasets\[1\]\.currentVersion", "a dataset that no run used has a version, too"),
    ("121", r"\.events.*", AS_SENT),
    (".*", r".*\.nominal(Start|End)Time", NOMINAL),
    (".*", r".*\.tags(\[\d\])?", TAGS),
    ("133", r"\.(results.*|totalCount)", "% is not a wildcard in a search"),
    ("136|142|151", r"\[\d+\]\.\w+", UNITS),
    (".*", r"\.(code|message|errors)", "all errors have one format, which another test checks"),
    ("250|295", r"\.(totalCount|jobs.*)", "events in between are not in the recording"),
    ("316", r"\.jobs\[0\]\.(createdAt|updatedAt|latestRun.*)", "times of the recording"),
    ("172", r"\.(createdAt|updatedAt|endedAt)", "times of the recording"),
]

# A version of a dataset in a path. Ids of versions differ: those of the service follow from names.
VERSION = re.compile(r"(?P<dataset>/api/v1/namespaces/[^/]+/datasets/[^/]+)/versions/[0-9a-f-]{36}")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def normalised(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: normalised(each) for key, each in value.items()}
    if isinstance(value, list):
        shown = [normalised(each) for each in value]
        return sorted(shown, key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, str):
        if UUID.fullmatch(value) and not value.startswith("01900000"):
            return "(id)"
        if value.startswith("2026-11-15T18:2"):
            return "(time)"
    return value


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted({*expected, *actual}):
            if key not in expected or key not in actual:
                yield f"{path}.{key}", "missing" if key in expected else "added"
            else:
                yield from differences(expected[key], actual[key], f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield path, f"{len(expected)} entries, not {len(actual)}"
        for i, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(one, other, f"{path}[{i}]")
    elif expected != actual and expected != "(time)":
        yield path, f"{expected!r}, not {actual!r}"


def intended(number: str, path: str) -> bool:
    return any(
        re.fullmatch(examples, number) and re.fullmatch(paths, path)
        for examples, paths, _ in DIFFERENT
    )


def replay(catalog: Catalog, example: dict[str, Any]) -> list[str]:
    """The unintended differences."""
    request, expected = example["request"], example["answer"]
    number = example["name"].split()[0]
    for method, path, body in BEFORE.get(number, []):
        response = catalog.call(method, path, **({"json": body} if body is not None else {}))
        assert response.status_code < 300, f"before {number}: {path}: {response.text}"
    path = request["path"]
    version = VERSION.fullmatch(path)
    if version:
        dataset = catalog.get(catalog.url + version["dataset"])
        path = f"{version['dataset']}/versions/{dataset['currentVersion']}"
    content = (
        request.get("rawBody") or json.dumps(request["body"]) if "contentType" in request else ""
    )
    headers = {"Content-Type": request["contentType"]} if "contentType" in request else {}
    response = catalog.call(
        request["method"], catalog.url + path, data=content.encode(), headers=headers
    )
    if expected["status"] == 500:
        allowed = (200, 201) if number in GOOD_DESPITE_500 else BAD
        return [] if response.status_code in allowed else [f"status {response.status_code}"]
    if response.status_code != expected["status"]:
        return (
            [] if intended(number, "status") else [f"status {response.status_code} {response.text}"]
        )
    if "body" not in expected:
        return []
    every = differences(normalised(expected["body"]), normalised(response.json()))
    return [f"{path}: {what}" for path, what in every if not intended(number, path)]


def test_every_recorded_request_gets_the_response_of_marquez(catalog: Catalog) -> None:
    different = {example["name"]: replay(catalog, example) for example in EXAMPLES}
    assert {name: listed for name, listed in different.items() if listed} == {}


@pytest.mark.parametrize(
    ("path", "errors"),
    [
        ("/lineage", ["query param nodeId must not be null"]),
        (
            "/jobs/runs/01900000-0000-7000-8000-000000000002/facets",
            ["query param type must not be null"],
        ),
        ("/runlineage/upstream", ["query param runId must not be null"]),
        ("/namespaces?limit=-1", ["query param limit must be greater than or equal to 0"]),
    ],
)
def test_an_error_names_the_field_as_marquez_does(
    catalog: Catalog, path: str, errors: list[str]
) -> None:
    response = catalog.call("GET", path)
    assert response.json() == {"code": 400, "message": errors[0], "errors": errors}


def test_an_invalid_number_gets_404_as_in_marquez(catalog: Catalog) -> None:
    for limit in ("x", "99999999999"):
        response = catalog.call("GET", f"/namespaces?limit={limit}")
        assert response.status_code == 404
        assert response.json() == {"code": 404, "message": "HTTP 404 Not Found"}
