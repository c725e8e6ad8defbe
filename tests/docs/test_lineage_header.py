"""The page on the header shows what the code reads and writes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from headwater.model import Address, Lineage
from headwater.model.header_codec import MAX_HEADER_BYTES, MAX_LISTED_PARENTS, decode, encode

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "lineage-header.md").read_text()
EXAMPLES = [line for line in PAGE.splitlines() if re.match(r"1 (?!RUN)", line)]


def test_the_examples_are_read_and_written_as_they_stand() -> None:
    found = [decode(example.encode()) for example in EXAMPLES]
    lineages = [lineage for lineage in found if isinstance(lineage, Lineage)]
    assert [encode(lineage).decode() for lineage in lineages] == EXAMPLES
    assert [lineage.parent_count for lineage in lineages] == [1, 2, 1, 938, 0]


def test_the_bounds_are_those_of_the_code() -> None:
    assert f"at most {MAX_LISTED_PARENTS} parents" in PAGE
    assert f"up to {MAX_HEADER_BYTES // 1024} KiB" in PAGE


def test_the_record_id_is_made_as_described() -> None:
    lineage = Lineage(None, (Address("visits", 0, 17), Address("ads", 1, 4)), ordinal=2)
    digest = hashlib.sha256(b"job\0visits/0@17,ads/1@4\x002").hexdigest()
    assert lineage.identity("job") == digest[:32]
