"""Every route, every kind of limited key, and every place in an event that can name something of
another namespace: the other tenant's data neither changes nor is shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import (
    Catalog,
    bearer,
    fresh_database,
    guarded,
    run_event,
    run_id,
    running,
)
from tests.tenants import (
    EARLY,
    LATE,
    MARK,
    PLACES,
    THEIR_RUN,
    A,
    B,
    changes,
    dataset_event,
    hostile_event,
    of,
    state,
    symlink,
    their_events,
)

import headwater.catalog.ingest as ingest
from headwater.catalog.api.guard import RULES
from headwater.catalog.ingest import Projection
from headwater.catalog.store import migrate
from headwater.catalog.store.keys import create_key
from headwater.settings import Settings

ROLES = ("read", "write", "admin")

# Facets of events that the catalog interprets. For each, `PLACES` has what a limited key could name
# with it; those marked False name nothing outside of the event's own job, run and datasets.
INTERPRETED = {
    "parent": True,
    "parentRun": True,
    "symlinks": True,
    "dataSource": True,
    "columnLineage": True,
    "headwater_offsets": True,
    "schema": True,
    "lifecycleStateChange": True,
    "headwater_progress": False,
    "outputStatistics": False,
    "jobType": False,
}
# Tables to which an event is projected, and what a limited key writes there for other namespaces.
PROJECTED = {
    "namespaces": "nothing",
    "sources": "nothing",
    "source_names": "a name without an address, if it is new",
    "datasets": "nothing",
    "references": "a name without a description, if it is new",
    "symlinks": "nothing",
    "documents": "nothing",
    "versions": "nothing",
    "jobs": "nothing",
    "runs": "nothing",
    "run_datasets": "datasets that its own runs use",
    "edges": "datasets that its own jobs use",
    "column_sets": "columns that its own jobs use",
    "column_edges": "columns that its own jobs use",
    "ranges": "what its own runs read",
    "progress": "nothing",
}


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A service with the data of B, called with an unlimited key."""
    database = fresh_database(postgres)
    migrate(database)
    with running(guarded(headwater_settings), database) as found:
        found.headers = bearer(create_key(database, "all", "admin", None)[1])
        found.send(*their_events())
        assert found.call("DELETE", f"/namespaces/{B}/datasets/deleted").status_code == 200
        assert found.call("POST", f"/namespaces/{B}/datasets/secret/tags/{MARK}").status_code == 200
        yield found


@pytest.fixture(scope="module")
def before(service: Catalog) -> dict[str, Any]:
    """The state before any request of A."""
    return state(service)


@pytest.fixture(scope="module")
def keys(service: Catalog, before: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The headers of a key of A for each role."""
    assert not service.call("GET", f"/namespaces/{A}/jobs").json()["jobs"]
    return {role: bearer(create_key(service.database, role, role, A)[1]) for role in ROLES}


def test_each_facet_and_each_table_has_a_rule() -> None:
    found: set[str] = set()
    for path in Path(ingest.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "get"
                and ast.unparse(node.func.value).endswith("facets")
                and isinstance(node.args[0], ast.Constant)
            ):
                found.add(str(node.args[0].value))
    assert found == set(INTERPRETED), "add the facet here, and to PLACES what it can name"
    named = {each.name for each in fields(Projection)}
    assert named == set(PROJECTED), "state what a limited key may write there"


@pytest.mark.parametrize("place", PLACES)
def test_no_event_of_a_limited_key_changes_or_shows_another_tenant(
    service: Catalog, before: dict[str, Any], keys: dict[str, dict[str, str]], place: str
) -> None:
    expected, _ = PLACES[place]
    for at in (EARLY, LATE):
        event = hostile_event(place, at)
        assert _post(service, keys["read"], event) == 403
        assert _post(service, keys["write"], event) == expected
        assert _post(service, keys["admin"], {**event, "eventType": "FAIL"}) == expected
        batch = service.call("POST", "/lineage/batch", json=[event], headers=keys["write"])
        assert batch.status_code == (200 if expected == 201 else 422)
    assert changes(before, state(service)) == []
    _assert_nothing_is_shown(service, keys["read"])


def _post(service: Catalog, headers: dict[str, str], event: Any) -> int:
    answer = service.call("POST", "/lineage", json=event, headers=headers)
    assert MARK not in answer.text
    return answer.status_code


_NAMES = ("mine", "secret", "secret-alias", "deleted", "joint-own", "joint-alias", "joint-b")


def _assert_nothing_is_shown(service: Catalog, headers: dict[str, str]) -> None:
    paths = ["", "/datasets", "/jobs", "/jobs/ajob"]
    paths += [f"/jobs/ajob/{more}" for more in ("versions", "runs", "hierarchy")]
    paths += [
        f"/datasets/{name}{more}" for name in _NAMES for more in ("", "/versions", "/quality")
    ]
    for path in paths:
        answer = service.call("GET", f"/namespaces/{A}{path}", headers=headers)
        assert answer.status_code in (200, 403, 404), f"{path}: {answer.text}"
        assert MARK not in answer.text, path


def test_events_without_a_run_are_for_the_namespaces_of_the_key_only(
    service: Catalog, before: dict[str, Any], keys: dict[str, dict[str, str]]
) -> None:
    for at in (EARLY, LATE):
        assert _post(service, keys["admin"], dataset_event(of(B, "secret"), at)) == 403
        linked = dataset_event(of(A, "mine", symlinks=symlink(B, "secret")), at)
        assert _post(service, keys["admin"], linked) == 201
        job = {**run_event(job="bjob", namespace=B, at=at), "schemaURL": "x/JobEvent"}
        assert _post(service, keys["admin"], job) == 403
    assert changes(before, state(service)) == []


def test_names_that_an_unlimited_key_linked_show_only_what_is_in_the_namespaces_of_the_key(
    service: Catalog, keys: dict[str, dict[str, str]]
) -> None:
    service.send(run_event(job="reader", namespace=A, inputs=[of(A, "joint-alias")]))
    own = service.call("GET", f"/namespaces/{A}/datasets/joint-own", headers=keys["read"])
    assert [field["name"] for field in own.json()["fields"]] == ["open"]
    versions = service.call(
        "GET", f"/namespaces/{A}/datasets/joint-own/versions", headers=keys["read"]
    )
    assert len(versions.json()["versions"]) > 1
    assert {str(each["createdByRun"]) for each in versions.json()["versions"]} == {"None"}
    job = service.call("GET", f"/namespaces/{A}/jobs/reader", headers=keys["read"])
    assert job.json()["inputs"] == [{"namespace": A, "name": "joint-alias"}]
    assert MARK not in own.text + versions.text + job.text
    deleted = service.call("DELETE", f"/namespaces/{A}/datasets/joint-own", headers=keys["admin"])
    assert deleted.status_code == 403


def test_a_reference_becomes_a_dataset_with_the_first_event_of_its_namespace(
    service: Catalog, keys: dict[str, dict[str, str]]
) -> None:
    event = run_event(job="ajob", namespace=A, run=run_id("r"), inputs=[of("d", "new")], at=EARLY)
    assert _post(service, keys["write"], event) == 201
    assert service.call("GET", "/namespaces/d").status_code == 404
    assert service.get("/search?q=new&namespace=d")["results"] == []
    graph = service.get(f"/lineage?nodeId=job:{A}:ajob")["graph"]
    assert "dataset:d:new" in [node["id"] for node in graph], "the edge is shown"
    service.send(run_event(job="own", namespace="d", outputs=[of("d", "new")]))
    (stored,) = service.get("/namespaces/d/datasets")["datasets"]
    assert (stored["name"], stored["createdAt"]) == ("new", "2026-01-01T00:00:00Z")


def test_a_key_for_several_namespaces_describes_all_of_them(service: Catalog) -> None:
    kafka = "kafka://host:9092"
    key = bearer(create_key(service.database, "several", "write", ["team", kafka])[1])
    output = of(kafka, "clicks", symlinks=symlink("team", "clicks"))
    event = run_event(job="job", namespace="team", outputs=[output])
    assert _post(service, key, event) == 201
    shown = service.call(
        "GET", "/namespaces/kafka%3A%2F%2Fhost%3A9092/datasets/clicks", headers=key
    )
    assert shown.json()["lastWrittenAt"] == "2026-01-01T00:00:00Z"
    alias = service.call("GET", "/namespaces/team/datasets/clicks", headers=key)
    assert alias.json()["id"] == {"namespace": kafka, "name": "clicks"}
    assert service.call("GET", f"/namespaces/{A}/datasets", headers=key).status_code == 403


# For each route: refused to limited keys, or about the namespace in its path.
_NS = "/api/v1/namespaces/{namespace}"
_JOB, _DATASET = f"{_NS}/jobs/{{job}}", f"{_NS}/datasets/{{dataset}}"
OWN = {
    *(("GET", f"{_NS}{path}") for path in ("", "/datasets", "/jobs")),
    *((method, path) for path in (_NS, _JOB, _DATASET) for method in ("PUT", "DELETE")),
    *(("GET", f"{path}{more}") for path in (_JOB, _DATASET) for more in ("", "/versions")),
    *(("GET", f"{path}/versions/{{version}}") for path in (_JOB, _DATASET)),
    *(
        (method, f"{path}/tags/{{tag}}")
        for path in (_JOB, _DATASET)
        for method in ("POST", "DELETE")
    ),
    *((method, f"{_DATASET}/fields/{{field}}/tags/{{tag}}") for method in ("POST", "DELETE")),
    *((method, f"{_JOB}/runs") for method in ("GET", "POST")),
    ("GET", f"{_JOB}/hierarchy"),
    ("GET", f"{_DATASET}/quality"),
}
EVENTS = {("POST", "/api/v1/lineage"), ("POST", "/api/v1/lineage/batch")}
OPEN = {("GET", f"/api/v1/health{path}") for path in ("", "/live", "/ready")}
REFUSED = {
    ("GET", "/metrics"),
    *(("GET", f"/api/v2beta/search/{kind}") for kind in ("jobs", "datasets")),
    *(
        ("GET", f"/api/v1/{path}")
        for path in (
            "openapi.json lineage graph column-lineage runlineage/upstream events/lineage search "
            "metrics/now metrics/history alerts alerts/incidents stats/lineage-events stats/jobs "
            "stats/datasets stats/sources namespaces sources sources/{source} tags jobs jobs/runs "
            "jobs/runs/{id} jobs/runs/{id}/facets jobs/runs/{id}/batches jobs/runs/{id}/hierarchy"
        ).split()
    ),
    *(
        ("GET", f"/api/v1/records/{{topic}}/{{partition}}/{{offset}}{more}")
        for more in ("", "/ancestry", "/impact", "/replay")
    ),
    ("PUT", "/api/v1/sources/{source}"),
    ("PUT", "/api/v1/tags/{name}"),
    *(("POST", f"/api/v1/jobs/runs/{{id}}/{word}") for word in "start complete fail abort".split()),
}
_VALUES = {
    "version": run_id("x"),
    "tag": "PII",
    "field": "forged",
    "id": THEIR_RUN,
    "source": "source-b",
}
_VALUES |= {"topic": "secret", "partition": "0", "offset": "5", "name": "PII"}
_BODY = {
    "type": "BATCH",
    "physicalName": "p",
    "sourceName": "source-b",
    "inputs": [{"namespace": B, "name": "secret"}, {"namespace": B, "name": "missing"}],
    "outputs": [{"namespace": B, "name": "deleted"}],
}


def test_each_route_has_a_rule_for_limited_keys() -> None:
    assert OWN | EVENTS | OPEN | REFUSED == set(RULES), "a new route needs a rule for limited keys"


def test_no_route_changes_or_shows_another_tenant(
    service: Catalog, before: dict[str, Any], keys: dict[str, dict[str, str]]
) -> None:
    # Deletions last: they hide what other routes need.
    for method, path in sorted(OWN | REFUSED, key=lambda route: (route[0] == "DELETE", route)):
        own = _NAMES if "{dataset}" in path else _NAMES[:1]
        targets = [(B, "secret", "bjob"), *((A, name, "ajob") for name in own)]
        for role, headers in keys.items():
            for namespace, dataset, job in targets[: 1 if (method, path) in REFUSED else None]:
                values = {**_VALUES, "namespace": namespace, "dataset": dataset, "job": job}
                body = _BODY if path == _JOB else {**_BODY, "type": "DB_TABLE", "runId": THEIR_RUN}
                url = service.url + path.format(**values)
                answer = service.call(method, url, json=body, headers=headers)
                where = f"{role} {method} {path} {values}: {answer.status_code} {answer.text}"
                assert MARK not in answer.text, where
                assert answer.status_code < 500, where
                if namespace == B:
                    assert answer.status_code == 403, where
        if method != "GET":
            assert changes(before, state(service)) == [], f"{method} {path}"
