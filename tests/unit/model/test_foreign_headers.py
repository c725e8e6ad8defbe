"""Which headers of other applications outputs inherit, and how many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.errors import SettingError
from headwater.model import Header
from headwater.model.foreign_headers import CONTENT_HEADERS, INHERITED_HEADERS, limited
from headwater.settings import load

VECTORS = Path(__file__).parents[2] / "header_vectors.json"


def test_the_rule_is_that_of_the_vectors() -> None:
    """`HeaderVectorsTest.java` applies it."""
    rule = json.loads(VECTORS.read_text())["inheritance"]
    assert list(INHERITED_HEADERS) == rule["inherited"]
    assert list(CONTENT_HEADERS) == rule["content"]


@pytest.mark.parametrize("name", ["x-*-*", "", "a\nb"])
def test_a_name_with_several_stars_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="inherit_headers"):
        load(jobs={"inherit_headers": [name]})


def test_headers_beyond_the_limits_are_dropped_and_counted() -> None:
    large: list[Header] = [("a", b"1"), ("zeros", bytes(2 * 1024 * 1024)), ("b", None)]
    assert limited(large, 64 * 1024, 100) == (
        *(("a", b"1"), ("b", None)),
        ("lineage_dropped_headers", b"1"),
    )
    many: list[Header] = [(f"h{number}", b"") for number in range(10_000)]
    kept = limited(many, 64 * 1024, 100)
    assert kept == (*many[:100], ("lineage_dropped_headers", b"9900"))
    assert limited(many[:100], 64 * 1024, 100) == tuple(many[:100])
    assert limited([("ab", b"c")], 3, 1) == (("ab", b"c"),)
    assert limited([("ä", b"c")], 2, 1) == (("lineage_dropped_headers", b"1"),)
