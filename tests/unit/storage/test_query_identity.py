"""Which checkpoints belong to a query: the comparison, its errors, and recreated topics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint

from headwater.collector.checkpoint_guard import check_accepted
from headwater.errors import CheckpointError, InputError
from headwater.storage.checkpoint import (
    IDENTITY_FILE,
    QueryIdentity,
    read_checkpoint,
    read_identity,
    save_identity,
)
from headwater.storage.query_identity import (
    ACCEPTABLE,
    differences,
    refuse,
    refuse_other_mode,
    reset_topics,
)

QUERY = QueryIdentity(
    "clean", "exactly-once", {"visits": "id-1", "ads": "id-2"}, {"visits-clean": "id-3"}
)
MODES = ("exactly-once", "transactional", "idempotent", "batched", "individual")


def changed(current: QueryIdentity, stored: QueryIdentity = QUERY) -> list[tuple[str, str]]:
    found = differences(stored, current, current.inputs.__contains__)
    return [(each.change, each.subject) for each in found]


def test_the_same_query_has_no_differences() -> None:
    assert changed(QUERY) == []
    assert changed(replace(QUERY, delivery="idempotent")) == []


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (replace(QUERY, job="dirty"), ("other-checkpoint", "the job")),
        (replace(QUERY, outputs={"other": "id-9"}), ("other-checkpoint", "the output")),
        (replace(QUERY, outputs={"/tables/x": ""}), ("other-checkpoint", "the output")),
        (replace(QUERY, inputs={"visits": "id-1"}), ("other-checkpoint", "the input")),
        (
            replace(QUERY, inputs={"visits": "id-7", "ads": "id-2"}),
            ("recreated-input", "visits"),
        ),
        (replace(QUERY, outputs={"visits-clean": "id-8"}), ("recreated-output", "visits-clean")),
    ],
)
def test_each_difference_is_found(current: QueryIdentity, expected: tuple[str, str]) -> None:
    assert changed(current) == [expected]


def test_several_differences_are_all_found() -> None:
    current = replace(QUERY, job="b", inputs={"visits": "x", "ads": "y"}, outputs={"o": "z"})
    assert [change for change, _ in changed(current)] == [
        *("other-checkpoint", "other-checkpoint"),
        *("recreated-input", "recreated-input"),
    ]


def test_more_inputs_and_outputs_are_allowed() -> None:
    more = replace(
        QUERY,
        inputs={**QUERY.inputs, "clicks": "id-5"},
        outputs={**QUERY.outputs, "visits-rare": "id-6"},
    )
    assert changed(more) == []


def test_a_topic_without_a_known_id_is_not_compared() -> None:
    assert changed(replace(QUERY, outputs={"visits-clean": ""})) == []
    assert changed(QUERY, replace(QUERY, outputs={"visits-clean": ""})) == []


def test_a_refusal_has_the_path_both_values_and_the_name_to_accept(tmp_path: Path) -> None:
    recreated = replace(QUERY, inputs={"visits": "id-7", "ads": "id-2"})
    for current in (replace(QUERY, job="dirty"), recreated):
        (found,) = differences(QUERY, current, current.inputs.__contains__)
        error = refuse(found, tmp_path)
        for text in (str(tmp_path), found.before, found.after):
            assert text in error.message
        assert f"--accept {found.change}" in (error.hint or "")


@pytest.mark.parametrize("stored", MODES)
@pytest.mark.parametrize("current", MODES)
def test_another_mode_is_refused_only_while_a_batch_is_interrupted(
    stored: str, current: str, tmp_path: Path
) -> None:
    before, after = replace(QUERY, delivery=stored), replace(QUERY, delivery=current)
    refuse_other_mode(before, after, None, tmp_path)
    at_least_once = {"idempotent", "batched", "individual"}
    if stored == current or {stored, current} <= at_least_once:
        refuse_other_mode(before, after, 7, tmp_path)
        return
    with pytest.raises(CheckpointError, match=f"batch 7 was interrupted.*{stored}.*{current}"):
        refuse_other_mode(before, after, 7, tmp_path)


def test_an_identity_is_stored_and_read_with_what_was_accepted(tmp_path: Path) -> None:
    assert read_identity(tmp_path) is None
    accepted = tuple({"change": "duplicates", "subject": str(n)} for n in range(30))
    save_identity(tmp_path, replace(QUERY, accepted=accepted))
    stored = read_identity(tmp_path)
    assert stored == QUERY
    assert stored.accepted == accepted[-20:]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 1}', '{"version": 2}'])
def test_a_damaged_identity_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / IDENTITY_FILE).parent.mkdir()
    (tmp_path / IDENTITY_FILE).write_text(text)
    with pytest.raises(CheckpointError, match=r"query\.json"):
        read_identity(tmp_path)


def test_an_unknown_name_is_not_accepted() -> None:
    assert check_accepted(ACCEPTABLE) == set(ACCEPTABLE)
    with pytest.raises(InputError, match="can't accept 'everything'"):
        check_accepted(["duplicates", "everything"])


def test_a_recreated_topic_is_read_from_its_beginning_and_other_topics_continue(
    tmp_path: Path,
) -> None:
    write_checkpoint(tmp_path, "visits", committed={0: 7, 1: 3}, planned={0: 9, 1: 3})
    (tmp_path / "offsets/.8.crc").write_text("checksum")
    for batch, offset in (("7", 5), ("8", 6)):
        with (tmp_path / "offsets" / batch).open("a") as file:
            file.write("\n" + json.dumps({"ads": {"0": offset}}))
    reset_topics(tmp_path, {"visits": {0: 2}, "conf": {0: 0}})
    state = read_checkpoint(tmp_path)
    assert state is not None
    # The interrupted batch has no records of the recreated topic, and the same of the other one.
    assert state.started == {"visits": {0: 2}}
    assert state.committed == {"visits": {0: 2}, "ads": {0: 5}}
    assert state.planned == {"visits": {0: 2}, "ads": {0: 6}}
    assert not (tmp_path / "offsets/.8.crc").exists()
    assert '"spark.sql.shuffle":"2"' in (tmp_path / "offsets/8").read_text()
