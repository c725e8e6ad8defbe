"""Facets from the column lineage of a plan."""

from __future__ import annotations

from typing import Any

from headwater.collector.columns import (
    input_schemas,
    lineage_by_column,
    lineage_by_field,
    schema_field,
)
from headwater.openlineage.events import DatasetName

VISITS, ADS = DatasetName("kafka://b:9092", "visits"), DatasetName("file", "/ads")
LEAVES = [[VISITS], [ADS], [], [VISITS]]


def used(leaf: int, path: str, *subtypes: str) -> dict[str, Any]:
    """An input as Java reports it."""
    transformations = [
        {
            "type": "DIRECT" if each in ("IDENTITY", "TRANSFORMATION") else "INDIRECT",
            "subtype": each,
            "description": "",
            "masking": False,
        }
        for each in subtypes
    ]
    return {"leaf": leaf, "path": path.split("."), "transformations": transformations}


def plan_of(*decisive: Any, **values: Any) -> dict[str, Any]:
    columns = [{"name": name, "value": value} for name, value in values.items()]
    return {"columns": columns, "decisive": list(decisive), "opaque": []}


def value(*inputs: Any, **more: Any) -> dict[str, Any]:
    return {"inputs": list(inputs), **more}


def shown(fields: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {
        f"{each['name']}:{each['field']}": [one["subtype"] for one in each["transformations"]]
        for each in fields
    }


def fields_of(facet: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    return {name: shown(each["inputFields"]) for name, each in facet["fields"].items()}


JSON = value(
    used(0, "n", "CONDITIONAL"),
    parts={
        "page": value(used(0, "value.page", "IDENTITY"), type="string"),
        "ad": value(used(1, "ad", "TRANSFORMATION"), type="string"),
    },
    type="binary",
)


def test_structs_and_json_are_reported_field_by_field() -> None:
    plan = plan_of(used(0, "value.page", "JOIN"), used(1, "page", "JOIN"), value=JSON)
    facet = lineage_by_field(plan, plan["columns"], LEAVES)
    assert fields_of(facet) == {
        "value.page": {"visits:value.page": ["IDENTITY"]},
        "value.ad": {"/ads:ad": ["TRANSFORMATION"]},
        "value": {"visits:n": ["CONDITIONAL"]},
    }
    assert shown(facet["dataset"]) == {"visits:value.page": ["JOIN"], "/ads:page": ["JOIN"]}
    unnested = lineage_by_field(plan, plan["columns"], LEAVES, frozenset({"value"}))
    assert fields_of(unnested) == {
        "value": {
            "visits:n": ["CONDITIONAL"],
            "visits:value.page": ["IDENTITY"],
            "/ads:ad": ["TRANSFORMATION"],
        }
    }


def test_deep_structs_are_reported_as_one_field() -> None:
    deep = value(used(0, "id", "IDENTITY"))
    for _ in range(7):
        deep = value(parts={"a": deep})
    plan = plan_of(deep=deep)
    assert fields_of(lineage_by_field(plan, plan["columns"], LEAVES)) == {
        "deep.a.a.a.a.a": {"visits:id": ["IDENTITY"]}
    }


def test_by_column_a_copied_part_is_a_function_of_its_column() -> None:
    plan = plan_of(
        used(0, "value.page", "FILTER"),
        value=JSON,
        page=value(used(0, "value.page", "IDENTITY")),
        id=value(used(0, "id", "IDENTITY")),
    )
    facet = lineage_by_column(plan, LEAVES)
    assert fields_of(facet) == {
        "value": {
            "visits:n": ["CONDITIONAL"],
            "visits:value": ["TRANSFORMATION"],
            "/ads:ad": ["TRANSFORMATION"],
        },
        "page": {"visits:value": ["TRANSFORMATION"]},
        "id": {"visits:id": ["IDENTITY"]},
    }
    assert shown(facet["dataset"]) == {"visits:value": ["FILTER"]}


def test_a_dataset_that_is_read_twice_is_listed_once_with_all_transformations() -> None:
    both = value(used(0, "id", "TRANSFORMATION"), used(3, "id", "IDENTITY", "CONDITIONAL"))
    plan = plan_of(id=both)
    expected = {"id": {"visits:id": ["IDENTITY", "TRANSFORMATION", "CONDITIONAL"]}}
    assert fields_of(lineage_by_field(plan, plan["columns"], LEAVES)) == expected
    assert fields_of(lineage_by_column(plan, LEAVES)) == expected


def test_columns_without_a_known_input_are_not_listed() -> None:
    plan = plan_of(one=value(), local=value(used(2, "x", "IDENTITY")))
    assert lineage_by_column(plan, LEAVES)["fields"] == {}


def test_schemas_have_the_parts_of_the_output_and_the_used_fields_of_the_inputs() -> None:
    assert schema_field("value", JSON) == {
        "name": "value",
        "type": "binary",
        "fields": [{"name": "page", "type": "string"}, {"name": "ad", "type": "string"}],
    }
    assert schema_field("value", JSON, unnested=True) == {"name": "value", "type": "binary"}
    plan = plan_of(used(0, "key", "FILTER"), value=JSON)
    schemas = input_schemas(plan, plan["columns"])
    assert {leaf: facet["fields"] for leaf, facet in schemas.items()} == {
        0: [
            {"name": "key"},
            {"name": "n"},
            {"name": "value", "fields": [{"name": "page", "type": "string"}]},
        ],
        1: [{"name": "ad"}],
    }
