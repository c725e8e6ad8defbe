"""dbt with duckdb and openlineage-dbt, against the lineage service: `make test-clients`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.catalog_support import Catalog
from tests.clients.environments import needs_environments, run

pytestmark = needs_environments

FILES = {
    "dbt_project.yml": "{name: shop, version: '1.0', profile: shop}",
    "profiles.yml": "shop: {target: dev, outputs: {dev: {type: duckdb, path: shop.duckdb}}}",
    "seeds/raw_orders.csv": "id,status,amount\n1,paid,10\n2,open,20\n3,lost,30\n",
    "models/stg_orders.sql": "select id, status, amount from {{ ref('raw_orders') }}",
    "models/revenue.sql": "select status, sum(amount) as n from {{ ref('stg_orders') }} group by 1",
    "models/schema.yml": """
models:
  - name: stg_orders
    columns:
      - {name: id, data_tests: [unique]}
      - {name: status, data_tests: [{accepted_values: {arguments: {values: [paid, open]}}}]}
""",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def dbt(program: str, command: str, project: Path, url: str) -> str:
    return run(
        "dbt",
        program,
        command,
        "--profiles-dir",
        ".",
        folder=project,
        OPENLINEAGE_URL=url,
        OPENLINEAGE_NAMESPACE="dbt",
        DBT_SEND_ANONYMOUS_USAGE_STATS="false",
    )


@pytest.fixture(scope="module")
def built(catalog: Catalog, project: Path) -> Catalog:
    """The catalog after the models were built, and one of the tests failed."""
    dbt("dbt", "seed", project, catalog.url)
    for command in ("run", "test"):
        output = dbt("dbt-ol", command, project, catalog.url)
        assert "Emitted" in output, output
    assert catalog.refused == []
    return catalog


def short(dataset: dict[str, str]) -> str:
    return dataset["name"].rpartition(".")[2]


def test_a_model_is_a_job_with_its_input_output_and_parent(built: Catalog) -> None:
    jobs = {job["name"]: job for job in built.get("/namespaces/dbt/jobs")["jobs"]}
    (name,) = [name for name in jobs if "revenue" in name]
    job = jobs[name]
    assert [short(each) for each in job["inputs"]] == ["stg_orders"]
    assert [short(each) for each in job["outputs"]] == ["revenue"]
    assert job["latestRun"]["state"] == "COMPLETED"
    assert "sum(amount)" in job["facets"]["sql"]["query"]
    assert job["parentJobName"] == "dbt-run-shop"


def test_the_graph_leads_from_one_model_to_the_next(built: Catalog) -> None:
    nodes = [node for node in built.get("/graph")["graph"] if node["type"] == "DATASET"]
    graph = {short(node["data"]): node for node in nodes}
    (read_by,) = [
        edge for edge in graph["stg_orders"]["outEdges"] if "revenue" in edge["destination"]
    ]
    (written_by,) = graph["revenue"]["inEdges"]
    assert read_by["destination"] == written_by["origin"]


def test_a_failed_test_is_in_the_catalog_with_its_assertion(built: Catalog) -> None:
    runs = built.get("/jobs/runs?state=FAILED")["runs"]
    versions = [each for run in runs for each in run["inputDatasetVersions"]]
    failed = [
        assertion["assertion"]
        for each in versions
        for assertion in each["facets"].get("dataQualityAssertions", {}).get("assertions", [])
        if not assertion["success"]
    ]
    assert failed == ["accepted_values"]
