"""Blemishes: exact shares, at most one per row, and their effect on a record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.generator import BLOCK_ROWS, KINDS, MALFORMED_VALUE, Blemishes, Generated, generate

NAMES = ["duplicates", "missing", "malformed", "late"]
ALL_KINDS = list(KINDS)


def classify(kind: str, records: Iterable[Generated], seed: int = 0) -> list[str]:
    """The blemish of each record, by comparison with the clean stream."""
    clean = generate(kind, None, seed=seed)
    last_clean: Generated | None = None
    names = []
    for key, value in records:
        # No two clean records of a stream are equal, so a repeated one is a duplicate.
        if (key, value) == last_clean:
            names.append("duplicates")
            continue
        expected = next(clean)
        assert key == expected[0]
        if value == expected[1]:
            last_clean = expected
            names.append("clean")
        elif value == MALFORMED_VALUE:
            names.append("malformed")
        else:
            names.append(_missing_or_late(kind, json.loads(value), json.loads(expected[1])))
    return names


def _missing_or_late(kind: str, found: dict[str, Any], expected: dict[str, Any]) -> str:
    if len(found) == len(expected) - 1:
        assert found.items() <= expected.items()
        return "missing"
    assert list(found) == list(expected)
    assert [name for name in found if found[name] != expected[name]] == [KINDS[kind].time_field]
    return "late"


def rounded_up(rows: int, percent: float) -> int:
    share = Decimal(rows) * Decimal(str(percent)) / 100
    return int(share.to_integral_value(ROUND_CEILING))


def counted(rows: int, blemishes: Blemishes, kind: str = "clicks", seed: int = 0) -> Counter[str]:
    records = generate(kind, rows, seed=seed, blemishes=blemishes)
    return Counter(classify(kind, records, seed))


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("rows", "percent", "expected"),
    [
        (1_000, 5, 50),
        (1_000, 0.1, 1),
        (10, 0.01, 1),
        (3, 1, 1),
        (999, 33.3, 333),
        (1_000, 55.1, 551),
        (700, 7, 49),
        (2_000, 50, 1_000),
    ],
)
def test_a_share_is_exact_and_rounded_up(
    kind: str, name: str, rows: int, percent: float, expected: int
) -> None:
    found = counted(rows, Blemishes(**{name: percent}), kind)  # type: ignore[arg-type]
    assert found == {name: expected, "clean": rows - expected}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_each_share_is_exact_if_all_are_set(kind: str) -> None:
    found = counted(3_333, Blemishes(duplicates=10, missing=0.1, malformed=7.7, late=20), kind)
    assert found == {
        "duplicates": 334,
        "missing": 4,
        "malformed": 257,
        "late": 667,
        "clean": 3_333 - 334 - 4 - 257 - 667,
    }


@given(
    rows=st.integers(0, 400),
    shares=st.tuples(*[st.decimals(0, 25, places=2).map(float)] * 4),
    seed=st.integers(),
)
def test_counts_are_the_shares_rounded_up_if_they_fit(
    rows: int, shares: tuple[float, float, float, float], seed: int
) -> None:
    found = counted(rows, Blemishes(*shares), seed=seed)
    expected = {name: rounded_up(rows, share) for name, share in zip(NAMES, shares, strict=True)}
    needed = sum(expected.values()) + (expected["duplicates"] > 0)
    assert found.total() == rows
    assert all(found[name] <= expected[name] for name in NAMES)
    if needed <= rows:
        assert {name: found[name] for name in NAMES} == expected
    else:
        assert found["clean"] <= 1


@pytest.mark.parametrize(
    ("rows", "blemishes", "expected"),
    [
        (1, Blemishes(duplicates=100), {"clean": 1}),
        (5, Blemishes(duplicates=100), {"clean": 1, "duplicates": 4}),
        (1, Blemishes(duplicates=1, malformed=1), {"malformed": 1}),
        (2, Blemishes(1, 1, 1, 1), {"malformed": 1, "late": 1}),
        (4, Blemishes(1, 1, 1, 1), {"missing": 1, "malformed": 1, "late": 1, "clean": 1}),
        (5, Blemishes(1, 1, 1, 1), dict.fromkeys([*NAMES, "clean"], 1)),
        (10, Blemishes(0, 91, 1, 1), {"missing": 8, "malformed": 1, "late": 1}),
        (10, Blemishes(50, 50), {"duplicates": 4, "missing": 5, "clean": 1}),
        (7, Blemishes(malformed=100), {"malformed": 7}),
    ],
)
def test_the_largest_count_is_reduced_if_the_counts_do_not_fit(
    rows: int, blemishes: Blemishes, expected: dict[str, int]
) -> None:
    assert counted(rows, blemishes) == expected


def test_a_clean_record_precedes_the_first_duplicate() -> None:
    blemishes = Blemishes(duplicates=60, malformed=30)
    for seed in range(200):
        names = classify("clicks", generate("clicks", 10, seed=seed, blemishes=blemishes), seed)
        assert names.index("clean") < names.index("duplicates")
        assert Counter(names) == {"duplicates": 6, "malformed": 3, "clean": 1}


def test_a_duplicate_repeats_the_last_clean_record_across_other_blemishes() -> None:
    records = list(generate("visits", 5_000, blemishes=Blemishes(duplicates=20, malformed=20)))
    names = classify("visits", records)
    across = 0
    for position, name in enumerate(names):
        if name == "duplicates":
            last_clean = max(at for at in range(position) if names[at] == "clean")
            assert records[position] == records[last_clean]
            across += "malformed" in names[last_clean:position]
    assert across > 50


@pytest.mark.parametrize("name", NAMES)
def test_positions_are_spread_over_the_stream_and_depend_on_the_seed(name: str) -> None:
    blemishes = Blemishes(**{name: 10})  # type: ignore[arg-type]
    patterns = set()
    for seed in range(5):
        names = classify("clicks", generate("clicks", 10_000, seed=seed, blemishes=blemishes), seed)
        tenths = [names[first : first + 1_000].count(name) for first in range(0, 10_000, 1_000)]
        assert sum(tenths) == 1_000
        assert all(50 < count < 150 for count in tenths)
        patterns.add(tuple(names))
    assert len(patterns) == 5


def test_each_position_has_the_same_probability() -> None:
    blemishes = Blemishes(missing=10, late=10)
    at = Counter[int]()
    for seed in range(2_000):
        names = classify("clicks", generate("clicks", 10, seed=seed, blemishes=blemishes), seed)
        at.update({names.index("missing"): 1})
    assert all(130 < at[position] < 270 for position in range(10))


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_each_field_is_dropped_in_some_rows(kind: str) -> None:
    dropped = set()
    for _, value in generate(kind, 500, blemishes=Blemishes(missing=100)):
        found = json.loads(value)
        assert json.dumps(found).encode() == value
        dropped |= set(KINDS[kind].fields) - set(found)
    assert dropped == set(KINDS[kind].fields)


@pytest.mark.parametrize(
    "late_by", [timedelta(hours=1), timedelta(seconds=1), timedelta(days=400, minutes=3)]
)
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_late_rows_are_earlier_by_exactly_late_by(kind: str, late_by: timedelta) -> None:
    field, precision = KINDS[kind].time_field, KINDS[kind].time_precision
    late = generate(kind, 300, blemishes=Blemishes(late=100, late_by=late_by))
    for (key, value), (clean_key, clean_value) in zip(late, generate(kind, 300), strict=True):
        expected = json.loads(clean_value)
        time = datetime.fromisoformat(expected[field]) - late_by
        expected[field] = time.isoformat(timespec=precision)
        assert key == clean_key
        assert value == json.dumps(expected).encode()


def test_unbounded_streams_have_exact_shares_in_each_block() -> None:
    blemishes = Blemishes(duplicates=1, missing=0.01, malformed=33.33, late=2)
    names = classify(
        "visits", islice(generate("visits", None, blemishes=blemishes), 5 * BLOCK_ROWS)
    )
    blocks = [names[first : first + BLOCK_ROWS] for first in range(0, 5 * BLOCK_ROWS, BLOCK_ROWS)]
    for block in blocks:
        assert Counter(block) == {
            "duplicates": 10,
            "missing": 1,
            "malformed": 334,
            "late": 20,
            "clean": 635,
        }
    assert len(set(map(tuple, blocks))) == 5


@pytest.mark.parametrize("value", [-0.1, 100.1, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", NAMES)
def test_a_share_outside_of_0_to_100_is_rejected(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name} is not a share in percent: {value}") as caught:
        Blemishes(**{name: value})  # type: ignore[arg-type]
    assert caught.value.attributes == {"option": name}
    assert caught.value.hint == f"{name} must be a number from 0 to 100"


def test_shares_above_100_in_total_are_rejected() -> None:
    with pytest.raises(InputError, match=r"duplicates \+ late exceed 100 percent: 100\.0001"):
        Blemishes(duplicates=50, late=50.0001)


def test_shares_of_exactly_100_in_total_are_accepted() -> None:
    # The sum of the floats is 100.00000000000001.
    assert Blemishes(duplicates=37.2, missing=1.5, malformed=27.1, late=34.2)


@pytest.mark.parametrize(
    "late_by",
    [timedelta(0), timedelta(hours=-1), timedelta(milliseconds=1500), timedelta(days=36_501)],
)
def test_an_invalid_late_by_is_rejected(late_by: timedelta) -> None:
    with pytest.raises(InputError, match="late_by"):
        Blemishes(late=1, late_by=late_by)
