"""The documentation of the lineage header matches the code."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from headwater.model import Address, Lineage
from headwater.model.header import (
    MAX_HEADER_BYTES,
    MAX_LISTED_PARENTS,
    MAX_PARENTS_IN_LISTING,
    decode,
    encode,
)

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "lineage-header.md").read_text()
EXAMPLES = [line for line in PAGE.splitlines() if re.match(r"[12] (?!RUN)", line)]


def test_the_examples_can_be_decoded_and_encoded() -> None:
    decoded = [decode(example.encode()) for example in EXAMPLES]
    lineages = [lineage for lineage in decoded if isinstance(lineage, Lineage)]
    assert [encode(lineage).decode() for lineage in lineages] == EXAMPLES
    assert [lineage.parent_count for lineage in lineages] == [1, 2, 1, 938, 0, 0, 1, 1, 1, 1]
    assert [len(lineage.ranges) for lineage in lineages] == [0, 0, 0, 0, 0, 1, 2, 0, 0, 0]
    assert [lineage.batch for lineage in lineages[-2:]] == [12, 123456]


def test_a_compact_header_has_the_documented_number_of_bytes() -> None:
    compact = EXAMPLES[-2:]
    sizes = [len(example) for example in compact]
    assert f"batch: {sizes[0]} and {sizes[1]} bytes for these two" in PAGE
    fixed = re.search(r"its value has (\d+) bytes \(of which (\d+) are the run id\)", PAGE)
    further = re.search(r"Each further parent has (\d+) bytes", PAGE)
    assert fixed is not None
    assert further is not None
    assert int(fixed[2]) == len(compact[0].split()[1])
    for example in compact:
        lineage = decode(example.encode())
        assert isinstance(lineage, Lineage)
        (parent,) = lineage.parents
        own = len(f"{parent.topic}{parent.partition}{parent.offset}")
        assert len(example) == int(fixed[1]) + own + len(str(lineage.batch))
        both = replace(lineage, parents=(parent, parent))
        assert len(encode(both)) - len(example) == int(further[1]) + own


def test_consecutive_parents_are_decoded_as_documented() -> None:
    examples = [line for line in PAGE.splitlines() if re.match(r"3 (?!RUN)", line)]
    decoded = [decode(example.encode()) for example in examples]
    assert [len(each.parents) for each in decoded if isinstance(each, Lineage)] == [1000, 105]
    assert f"lists at most {MAX_PARENTS_IN_LISTING:,} parents" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    assert f"at most {MAX_LISTED_PARENTS} parents" in PAGE
    assert f"up to {MAX_HEADER_BYTES // 1024} KiB" in PAGE


def test_the_record_id_is_derived_as_documented() -> None:
    lineage = Lineage(None, (Address("visits", 0, 17), Address("ads", 1, 4)), ordinal=2)
    digest = hashlib.sha256(b"job\0visits/0@17,ads/1@4\x002").hexdigest()
    assert lineage.identity("job") == digest[:32]
