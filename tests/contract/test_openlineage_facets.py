"""Every facet of OpenLineage is accepted, stored, and returned as it was sent.

The classes of `openlineage-python` are generated from OpenLineage's schemas: an instance of each
facet class, with a value for every field, is posted in events of every kind.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import types
import typing
from enum import Enum
from typing import Any

import attr
import openlineage.client.generated as generated
import pytest
from openlineage.client.generated import base
from openlineage.client.serde import Serde
from tests.catalog_support import PRODUCER, Catalog, run_id

DAY = "2026-01-01T00:00:00Z"
# Names that differ from the name of the class.
NAMES = {
    "DatasourceDatasetFacet": "dataSource",
    "DatasetVersionDatasetFacet": "version",
    "SQLJobFacet": "sql",
    "ProcessingEngineRunFacet": "processing_engine",
}
KINDS = {
    base.RunFacet: "RunFacet",
    base.JobFacet: "JobFacet",
    base.InputDatasetFacet: "InputDatasetFacet",
    base.OutputDatasetFacet: "OutputDatasetFacet",
    base.DatasetFacet: "DatasetFacet",
}
# Values for fields whose text has a format.
FORMATS = {
    "runId": run_id("facets"),
    "eventTime": DAY,
    "nominalStartTime": DAY,
    "nominalEndTime": DAY,
    "lastUpdated": DAY,
    "captureDate": DAY,
    "uri": "https://example.com/x",
    "url": "https://example.com/x",
    "repoUrl": "https://example.com/x",
}


def facet_classes() -> dict[str, type[Any]]:
    """The classes of all facets, by name."""
    found: dict[str, type[Any]] = {}
    for module in pkgutil.iter_modules(generated.__path__):
        if module.name != "base":
            loaded = importlib.import_module(f"{generated.__name__}.{module.name}")
            for name, each in inspect.getmembers(loaded, inspect.isclass):
                if each.__module__ == loaded.__name__ and issubclass(each, base.BaseFacet):
                    found[name] = each
    return found


FACETS = facet_classes()


def kind_of(facet: type[Any]) -> str:
    return next(name for cls, name in KINDS.items() if issubclass(facet, cls))


def name_of(facet: type[Any]) -> str:
    name = facet.__name__.removesuffix(kind_of(facet))
    return NAMES.get(facet.__name__, name[:1].lower() + name[1:])


def example(cls: type[Any], depth: int = 0) -> Any:
    """An instance with a value for every field."""
    hints = typing.get_type_hints(cls)
    fields = [field for field in attr.fields(cls) if field.init]
    return cls(
        **{
            field.alias: PRODUCER
            if field.name == "_producer"
            else value(hints[field.name], field.name, depth)
            for field in fields
        }
    )


def value(hint: Any, name: str, depth: int) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # A structure can contain itself.
        if depth > 4 and type(None) in arguments:
            return None
        return value(next(each for each in arguments if each is not type(None)), name, depth)
    if origin in (list, dict) and depth > 4:
        return origin()
    if origin is list:
        return [value(arguments[0], name, depth + 1)]
    if origin is dict:
        return {"key": value(arguments[1], name, depth + 1)}
    if origin is typing.Literal:
        return arguments[0]
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return next(iter(hint))
    if attr.has(hint):
        return example(hint, depth + 1)
    texts = {str: FORMATS.get(name, f"a {name}"), int: 7, float: 0.5, bool: True, dict: {}}
    return texts.get(hint, f"a {name}")


def body_of(event: Any) -> Any:
    return json.loads(Serde.to_json(event))


def events_with(facet: type[Any], job: str) -> list[Any]:
    """Events of every kind that can have the facet."""
    kind, name = kind_of(facet), name_of(facet)

    def facets(*kinds: str) -> dict[str, Any]:
        return {name: example(facet)} if kind in kinds else {}

    base.set_producer(PRODUCER)
    read = base.InputDataset("data", f"{job} in", facets=facets("DatasetFacet"))
    read.inputFacets = facets("InputDatasetFacet")
    written = base.OutputDataset("data", f"{job} out", facets=facets("DatasetFacet"))
    written.outputFacets = facets("OutputDatasetFacet")
    of_job = base.Job("facets", job, facets=facets("JobFacet"))
    run = base.Run(run_id(job), facets=facets("RunFacet"))
    run_event = base.RunEvent(
        eventTime=DAY,
        run=run,
        job=of_job,
        eventType=base.EventType.COMPLETE,
        inputs=[read],
        outputs=[written],
    )
    static = base.StaticDataset("data", f"{job} static", facets=facets("DatasetFacet"))
    return [
        body_of(run_event),
        body_of(base.JobEvent(eventTime=DAY, job=of_job, inputs=[read], outputs=[written])),
        body_of(base.DatasetEvent(eventTime=DAY, dataset=static)),
    ]


def test_the_package_has_the_facets_of_every_kind() -> None:
    assert len(FACETS) > 30
    assert {kind_of(each) for each in FACETS.values()} == set(KINDS.values())


@pytest.fixture(scope="module")
def posted(catalog: Catalog) -> dict[str, Any]:
    """The stored events of every facet, after all were posted."""
    for name, facet in FACETS.items():
        for event in events_with(facet, name):
            response = catalog.call("POST", "/lineage", json=event)
            assert response.status_code == 201, f"{name}: {response.text}"
    listed = catalog.get("/events/lineage?kind=ALL&limit=1000")
    assert listed["totalCount"] == 3 * len(FACETS)
    return {json.dumps(each, sort_keys=True): each for each in listed["events"]}


@pytest.mark.parametrize("name", FACETS)
def test_a_facet_is_returned_as_it_was_sent(
    catalog: Catalog, posted: dict[str, Any], name: str
) -> None:
    facet = FACETS[name]
    events = events_with(facet, name)
    assert all(json.dumps(event, sort_keys=True) in posted for event in events)
    key, kind, run_event = name_of(facet), kind_of(facet), events[0]
    run = catalog.get(f"/jobs/runs/{run_id(name)}")
    assert run["state"] == "COMPLETED"
    shown = {
        "RunFacet": lambda: run["facets"],
        "JobFacet": lambda: catalog.get(f"/namespaces/facets/jobs/{name}")["facets"],
        "DatasetFacet": lambda: catalog.get(f"/namespaces/data/datasets/{name}%20out")["facets"],
        "InputDatasetFacet": lambda: run["inputDatasetVersions"][0]["facets"],
        "OutputDatasetFacet": lambda: run["outputDatasetVersions"][0]["facets"],
    }[kind]()
    sent = {
        "RunFacet": lambda: run_event["run"]["facets"],
        "JobFacet": lambda: run_event["job"]["facets"],
        "DatasetFacet": lambda: run_event["outputs"][0]["facets"],
        "InputDatasetFacet": lambda: run_event["inputs"][0]["inputFacets"],
        "OutputDatasetFacet": lambda: run_event["outputs"][0]["outputFacets"],
    }[kind]()
    assert sent[key]
    assert shown[key] == sent[key]
