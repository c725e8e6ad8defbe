"""The stream of one kind: bytes, length and errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from itertools import islice

import pytest

import headwater.generator
from headwater.errors import InputError
from headwater.generator import KINDS, Blemishes, Generated, generate

ALL_KINDS = list(KINDS)
SOME_OF_EACH = Blemishes(duplicates=3, missing=2.5, malformed=1, late=5)

# Users may depend on these bytes: a change here is a change of behaviour.
CLEAN_DIGESTS = {
    "visits": "54deecd3c3966f6650c206b5705351ab6963d67e785e6fa021d3185f768ea7d7",
    "ads": "d731688bd8e9bc7670d70ead3bf7869fb552ce51c4fff432f816075a4f070927",
    "clicks": "090962b468ca0f19740e881de46120873ad6faad47d147fcfc197827c28612d8",
    "articles": "4f293803d5c28793e4222af2a60ef720af12cce3fa9941b5d0e487da33bdb1e2",
}
BLEMISHED_DIGESTS = {
    "visits": "d333c82d52ac66401f689f98b38055c09b25fe8e27210416dd107d1440072efc",
    "ads": "014a8611339b66bc9abcf69c946e03e52cee6d11e0927bebec9a060f05580213",
    "clicks": "4e8616672c3482845fdf5289dbcdf106e736217577257d12e194cf353e9e4a1c",
    "articles": "975c52f370d0893ea878365aa89399b137d0fafd4bd9dbcc7dc891a612c5e5cd",
}


def digest(records: Iterable[Generated]) -> str:
    sha256 = hashlib.sha256()
    for key, value in records:
        assert key is not None
        sha256.update(b"%b\t%b\n" % (key, value))
    return sha256.hexdigest()


def test_the_public_names() -> None:
    assert set(headwater.generator.__all__) == {
        "BLOCK_ROWS",
        "KINDS",
        "MALFORMED_VALUE",
        "VISITS_PER_ROUND",
        "Blemishes",
        "Generated",
        "RecordKind",
        "generate",
    }


def test_kinds_have_a_default_topic_and_number_of_partitions() -> None:
    assert {name: (kind.topic, kind.partitions) for name, kind in KINDS.items()} == {
        "visits": ("visits", 2),
        "ads": ("ads", 2),
        "clicks": ("clicks", 1),
        "articles": ("articles.raw.v1", 2),
    }


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_clean_records_are_the_same_as_in_the_last_release(kind: str) -> None:
    assert digest(generate(kind, 1_000)) == CLEAN_DIGESTS[kind]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_blemished_records_are_the_same_as_in_the_last_release(kind: str) -> None:
    records = generate(kind, 1_000, blemishes=SOME_OF_EACH)
    assert digest(records) == BLEMISHED_DIGESTS[kind]


@pytest.mark.parametrize("blemishes", [Blemishes(), SOME_OF_EACH], ids=["clean", "blemished"])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_same_seed_produces_the_same_bytes(kind: str, blemishes: Blemishes) -> None:
    first = list(generate(kind, 3_000, seed=7, blemishes=blemishes))
    assert list(generate(kind, 3_000, seed=7, blemishes=blemishes)) == first


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_interleaved_streams_are_independent(kind: str) -> None:
    one, other = generate(kind, 500), generate(kind, 500)
    assert all(left == right for left, right in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_another_seed_produces_other_bytes(kind: str) -> None:
    digests = {digest(generate(kind, 100, seed=seed)) for seed in (-1, 0, 1, 2**70)}
    assert len(digests) == 4


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_values_are_json_with_the_fields_in_order(kind: str) -> None:
    for key, value in generate(kind, 2_000):
        fields = json.loads(value)
        assert tuple(fields) == KINDS[kind].fields
        assert json.dumps(fields).encode() == value
        assert key


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_event_times_have_the_precision_of_the_kind(kind: str) -> None:
    for _, value in generate(kind, 2_000):
        text = json.loads(value)[KINDS[kind].time_field]
        time = datetime.fromisoformat(text)
        assert time.isoformat(timespec=KINDS[kind].time_precision) == text


@pytest.mark.parametrize("blemishes", [Blemishes(), SOME_OF_EACH], ids=["clean", "blemished"])
@pytest.mark.parametrize("rows", [0, 1, 2, 999, 1_000, 1_001])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_number_of_records_is_exact(kind: str, rows: int, blemishes: Blemishes) -> None:
    assert sum(1 for _ in generate(kind, rows, blemishes=blemishes)) == rows


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_shorter_clean_stream_is_a_prefix_of_an_unbounded_one(kind: str) -> None:
    assert list(generate(kind, 1_500)) == list(islice(generate(kind, None), 1_500))


def test_an_unknown_kind_is_rejected_at_once() -> None:
    with pytest.raises(InputError, match="'vists'") as caught:
        generate("vists", 1)
    assert caught.value.hint == "known kinds: visits, ads, clicks, articles"


def test_a_negative_number_of_rows_is_rejected_at_once() -> None:
    with pytest.raises(InputError, match="rows is negative: -1"):
        generate("visits", -1)
