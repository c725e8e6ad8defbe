"""Headers that Python and the sink must encode to the same bytes (`HeaderVectorsTest.java`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.model import Address, AddressRange, Lineage, record_id
from headwater.model.header import Unreadable, decode, encode, parent_lineage_text

VECTORS = json.loads((Path(__file__).parents[2] / "header_vectors.json").read_text())


def each(kind: str) -> pytest.MarkDecorator:
    vectors = VECTORS[kind]
    return pytest.mark.parametrize("vector", vectors, ids=[vector["name"] for vector in vectors])


def lineage_of(vector: dict[str, Any]) -> Lineage:
    ordinal, parents = vector.get("ordinal", 0), vector.get("all_parents")
    items = vector["parents"]
    ranges = [item[1:] for item in items if item.startswith("~")]
    return Lineage(
        None if vector["run"] == "-" else vector["run"],
        tuple(Address.parse(item) for item in items if item[0] not in "~?"),
        vector.get("unlisted", 0),
        ordinal,
        None if parents is None else record_id(vector["job"], parents, ordinal),
        tuple(map(Address.parse, vector.get("rest", ()))),
        tuple(map(AddressRange.parse, ranges)),
        "?" in items,
        vector.get("batch"),
    )


@each("lineage")
def test_python_encodes_the_lineage_header_of_the_vectors(vector: dict[str, Any]) -> None:
    assert encode(lineage_of(vector)) == vector["header"].encode()


@each("lineage")
def test_python_decodes_the_lineage_header_of_the_vectors(vector: dict[str, Any]) -> None:
    assert decode(vector["header"].encode()) == lineage_of(vector)


@each("unlisted")
def test_python_decodes_the_listed_parents_of_the_vectors(vector: dict[str, Any]) -> None:
    parents: list[Address] = []
    ranges: list[AddressRange] = []
    more = False
    for header in vector["headers"]:
        lineage = decode(header.encode())
        assert isinstance(lineage, Lineage)
        parents += lineage.parents
        ranges += lineage.ranges
        more |= lineage.more_parents
        assert lineage.batch == vector.get("batch")
    items = [item for item in vector["parents"] if item[0] not in "~?"]
    expected = [
        address
        for item in items
        for address in (
            AddressRange.parse(item).addresses()
            if ".." in item.rpartition("@")[2]
            else [Address.parse(item)]
        )
    ]
    assert parents == expected
    assert ranges == [AddressRange.parse(i[1:]) for i in vector["parents"] if i[0] == "~"]
    assert more == ("?" in vector["parents"])


@each("parent_lineage")
def test_python_formats_the_stamp_of_a_parent_as_in_the_vectors(vector: dict[str, Any]) -> None:
    assert (
        parent_lineage_text([(name, value) for name, value in vector["stamp"]])
        == (vector["header"])
    )


@each("unreadable")
def test_python_refuses_the_unreadable_headers_of_the_vectors(vector: dict[str, Any]) -> None:
    assert decode(vector["header"].encode()) is Unreadable(vector["why"])
