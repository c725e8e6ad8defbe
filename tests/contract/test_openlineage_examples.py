"""The facets that OpenLineage publishes as examples are returned as they were sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import Catalog, run_event, run_id

FOLDER = Path(__file__).parent / "openlineage_examples"
EXAMPLES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json"))
# From the longest name: each ends with the last one.
KINDS = ("InputDatasetFacet", "OutputDatasetFacet", "DatasetFacet", "JobFacet", "RunFacet")


def kind_of(example: str) -> str:
    return next(kind for kind in KINDS if example.partition("/")[0].endswith(kind))


def facet_of(example: str) -> dict[str, Any]:
    """The facet of an example, by its key."""
    content: dict[str, Any] = json.loads((FOLDER / example).read_text(encoding="utf-8"))
    return {"tags": content} if "_producer" in content else content


def event_of(example: str) -> dict[str, Any]:
    kind, facet = kind_of(example), facet_of(example)
    dataset: dict[str, Any] = {"namespace": "examples", "name": example}
    dataset["facets"] = facet if kind == "DatasetFacet" else {}
    return run_event(
        job=example,
        namespace="examples",
        run=run_id(example),
        inputs=[{**dataset, "inputFacets": facet if kind == "InputDatasetFacet" else {}}],
        outputs=[{**dataset, "outputFacets": facet if kind == "OutputDatasetFacet" else {}}],
        job_facets=facet if kind == "JobFacet" else {},
        run_facets=facet if kind == "RunFacet" else {},
    )


def test_there_are_examples_of_every_kind() -> None:
    assert {kind_of(example) for example in EXAMPLES} == set(KINDS)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_published_example_is_returned_as_it_was_sent(catalog: Catalog, example: str) -> None:
    event = event_of(example)
    response = catalog.call("POST", "/lineage", json=event)
    assert response.status_code == 201, response.text
    name = example.replace("/", "%2F")
    run = catalog.get(f"/jobs/runs/{run_id(example)}")
    shown = {
        "RunFacet": lambda: run["facets"],
        "JobFacet": lambda: catalog.get(f"/namespaces/examples/jobs/{name}")["facets"],
        "DatasetFacet": lambda: catalog.get(f"/namespaces/examples/datasets/{name}")["facets"],
        "InputDatasetFacet": lambda: run["inputDatasetVersions"][0]["facets"],
        "OutputDatasetFacet": lambda: run["outputDatasetVersions"][0]["facets"],
    }[kind_of(example)]()
    ((key, sent),) = facet_of(example).items()
    assert shown[key] == sent
    stored = catalog.get("/events/lineage?limit=1000")["events"]
    assert event in stored
