"""Two tenants of one lineage service, for tests of keys that are limited to namespaces.

`MARK` is in everything of the tenant B that no event of A names: it must not be in any response to
a key of A.
"""

from __future__ import annotations

from typing import Any

from tests.catalog_support import PRODUCER, SPEC, Catalog, run_event, run_id

A, B = "tenant-a", "tenant-b"
MARK = "b-private"
THEIR_RUN, THEIR_PARENT = run_id("run of b"), run_id("parent run of b")
EARLY, LATE = "1970-01-02T00:00:00Z", "2026-09-01T00:00:00Z"
FORGED = "forged by a"


def of(namespace: str, name: str, **facets: Any) -> dict[str, Any]:
    """A dataset."""
    return {"namespace": namespace, "name": name, "facets": facets}


def schema(*names: str) -> dict[str, Any]:
    return {"fields": [{"name": name, "type": "STRING"} for name in names]}


def symlink(namespace: str, name: str) -> dict[str, Any]:
    return {"identifiers": [{"namespace": namespace, "name": name, "type": "TABLE"}]}


def columns(namespace: str, name: str) -> dict[str, Any]:
    source = {"namespace": namespace, "name": name, "field": "guessed"}
    return {"fields": {"made": {"inputFields": [source]}}}


def parent(namespace: str, name: str, run: str) -> dict[str, Any]:
    return {"parent": {"job": {"namespace": namespace, "name": name}, "run": {"runId": run}}}


def their_events() -> list[dict[str, Any]]:
    """The events of B, and datasets that an unlimited key gave names in both namespaces."""
    secret = of(
        B,
        "secret",
        schema=schema(f"{MARK}-iban"),
        documentation={"description": MARK},
        ownership={"owners": [{"name": MARK}]},
        dataSource={"name": "source-b", "uri": f"jdbc:{MARK}"},
        symlinks=symlink(B, "secret-alias"),
    )
    named: dict[str, Any] = {
        "job": "bjob",
        "namespace": B,
        "run": THEIR_RUN,
        "inputs": [of(B, f"{MARK}-input")],
        "outputs": [secret, of(B, "deleted"), of(A, "joint-own")],
        "run_facets": {**parent(B, f"{MARK}-parent", THEIR_PARENT), "note": {"text": MARK}},
        "job_facets": {"documentation": {"description": MARK}},
    }
    linked = [
        of(A, "joint-own", symlinks=symlink(B, "joint-b"), schema=schema("open")),
        of(B, f"{MARK}-canonical", symlinks=symlink(A, "joint-alias"), schema=schema(MARK)),
        of(B, "joint-b", schema=schema("open", MARK), documentation={"description": MARK}),
    ]
    return [
        run_event("START", **named),
        run_event("COMPLETE", at="2026-01-01T00:01:00Z", **named),
        run_event(job="linker", namespace="operator", outputs=linked),
    ]


def dataset_event(dataset: dict[str, Any], at: str) -> dict[str, Any]:
    schema_url = f"{SPEC}DatasetEvent"
    return {"eventTime": at, "producer": PRODUCER, "schemaURL": schema_url, "dataset": dataset}


def _offsets(namespace: str) -> dict[str, Any]:
    one = {"namespace": namespace, "topic": "secret", "partition": 0, "first": 0, "last": 9}
    return {"headwater_offsets": {"batch": 1, "inputs": [one], "outputs": [one]}}


_DESCRIBED = {
    "schema": schema("forged"),
    "documentation": {"description": FORGED},
    "ownership": {"owners": [{"name": FORGED}]},
    "dataSource": {"name": "source-b", "uri": FORGED},
    "lifecycleStateChange": {"lifecycleStateChange": "DROP"},
    "version": {"datasetVersion": "7"},
    "tags": {"tags": [{"key": "PII", "value": "false"}]},
    "dataQualityAssertions": {"assertions": [{"assertion": "x", "success": False}]},
}

# Each place in an event that can name something of another namespace: the status of the response,
# and the parts of an event of A.
PLACES: dict[str, tuple[int, dict[str, Any]]] = {
    "the job": (403, {"namespace": B, "job": "bjob"}),
    "the run": (409, {"run": THEIR_RUN}),
    "an input": (201, {"inputs": [of(B, "secret", **_DESCRIBED)]}),
    "an output": (201, {"outputs": [of(B, "secret", **_DESCRIBED)]}),
    "an alias": (201, {"outputs": [of(B, "secret-alias", **_DESCRIBED)]}),
    "a deleted dataset": (201, {"outputs": [of(B, "deleted", **_DESCRIBED)]}),
    "an unknown dataset": (201, {"outputs": [of(B, "unknown", **_DESCRIBED)]}),
    "an unknown namespace": (201, {"inputs": [of("tenant-c", "unknown", **_DESCRIBED)]}),
    "a symlink from their name": (201, {"outputs": [of(A, "mine", symlinks=symlink(B, "secret"))]}),
    "a symlink from their alias": (
        201,
        {"inputs": [of(A, "mine", symlinks=symlink(B, "secret-alias"))]},
    ),
    "a symlink to their name": (201, {"outputs": [of(B, "secret", symlinks=symlink(A, "mine"))]}),
    "a symlink between their names": (
        201,
        {"inputs": [of(B, "deleted", symlinks=symlink(B, "secret"))]},
    ),
    "the source of an own dataset": (
        201,
        {"outputs": [of(A, "mine", dataSource={"name": "source-b", "uri": FORGED})]},
    ),
    "the columns of an input": (
        201,
        {"outputs": [of(A, "mine", columnLineage=columns(B, "secret"))]},
    ),
    "the columns of an output": (
        201,
        {"outputs": [of(B, "secret", columnLineage=columns(A, "mine"))]},
    ),
    "the parent": (201, {"run_facets": parent(B, "bjob", THEIR_RUN)}),
    "the parent by its former name": (
        201,
        {"run_facets": {"parentRun": parent(B, "bjob", THEIR_RUN)["parent"]}},
    ),
    "an unknown parent": (201, {"run_facets": parent(B, "unknown", run_id("unknown"))}),
    "a parent run with an own job": (201, {"run_facets": parent(A, "starter", THEIR_RUN)}),
    "a parent run that is only named": (201, {"run_facets": parent(A, "starter", THEIR_PARENT)}),
    "records of a topic": (201, {"run_facets": _offsets(B)}),
}


def hostile_event(place: str, at: str) -> dict[str, Any]:
    """An event of A that names something of B."""
    _, parts = PLACES[place]
    return run_event(
        **{"job": "ajob", "namespace": A, "run": run_id(f"{place} {at}"), "at": at, **parts}
    )


# What an unlimited key sees of B.
_DATASETS, _JOBS = f"/namespaces/{B}/datasets", f"/namespaces/{B}/jobs"
VIEWS = (
    f"/namespaces/{B}",
    "/namespaces/tenant-c",
    _DATASETS,
    *(f"{_DATASETS}/{name}" for name in ("secret", "secret-alias", "deleted")),
    f"{_DATASETS}/secret/versions",
    _JOBS,
    *(f"{_JOBS}/{name}" for name in ("bjob", "bjob/versions", "bjob/runs", "unknown")),
    *(f"/jobs/runs/{run}" for run in (THEIR_RUN, THEIR_PARENT, run_id("unknown"))),
    f"/jobs/runs/{THEIR_RUN}/facets?type=run",
    f"/jobs/runs/{THEIR_RUN}/facets?type=job",
    f"/jobs/runs/{THEIR_RUN}/batches",
    f"/runlineage/upstream?runId={THEIR_RUN}",
    "/sources/source-b",
    f"/search?q=secret&namespace={B}",
    f"/search?q=unknown&namespace={B}",
    "/records/secret/0/5",
)
# Changed by an event of any namespace, or by time.
_SKIPPED = ("events", "metric_points", "alert_states", "alert_incidents", "alert_messages")


def state(catalog: Catalog) -> dict[str, Any]:
    """What an unlimited key sees of B, and all rows of the database."""
    seen: dict[str, Any] = {}
    for path in VIEWS:
        answer = catalog.call("GET", path)
        seen[path] = (answer.status_code, answer.text)
    tables = catalog.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = " UNION ALL ".join(
        f"SELECT '{table} ' || to_jsonb(t)::text FROM {table} t"  # noqa: S608 - names of tables
        for (table,) in tables
        if table not in _SKIPPED
    )
    seen["rows"] = {text for (text,) in catalog.rows(rows)}
    return seen


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Views that differ, and rows that are gone or differ; `before` has no rows of A's own."""
    found = [path for path in VIEWS if before[path] != after[path]]
    return found + [row for row in before["rows"] - after["rows"] if f'"{A}"' not in row]
