"""Plans and their ids, checksums, manifests and their signatures, loading of transforms."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import InputError, UnknownJobError, UnknownReplayError
from headwater.replay.coverage import LOST, SelectionGap
from headwater.replay.folder import ReplayFolder, find_replay
from headwater.replay.manifest import Checksum, Manifest, StepResult, signature_problem
from headwater.replay.plan import Plan, steps_for
from headwater.replay.transform import Transform, load_transform
from headwater.settings import load
from headwater.storage.offset_ranges import OffsetRanges

PLAN = Plan(
    transform="visits_converter",
    job_name="visits_converter",
    job_version="v1",
    topic="visits",
    offsets={0: OffsetRanges.of((0, 2)), 1: OffsetRanges.of((5, 9), (20, 21))},
    records={0: 3, 1: 7},
    target="visits_transformed",
    filters={"where": "page = 'home'"},
    gaps=(SelectionGap("visits", 1, 10, 19, LOST),),
)


def test_the_id_does_not_depend_on_the_order_of_partitions() -> None:
    reversed_plan = replace(
        PLAN,
        offsets={p: PLAN.offsets[p] for p in (1, 0)},
        records={p: PLAN.records[p] for p in (1, 0)},
    )
    assert reversed_plan.replay_id == PLAN.replay_id
    assert len(PLAN.replay_id) == 16
    # The number of steps does not change what is written.
    assert replace(PLAN, steps=9, replay_count=2).replay_id == PLAN.replay_id


@pytest.mark.parametrize(
    "change",
    [
        {"transform": "other"},
        {"job_name": "other"},
        {"job_version": "v2"},
        {"topic": "other"},
        {"target": "other"},
        {"filters": {"where": "page = 'index'"}},
        {"offsets": {0: OffsetRanges.of((0, 2)), 1: OffsetRanges.of((5, 9), (20, 22))}},
        {"records": {0: 3, 1: 6}},
        {"skip_existing": True},
        {"gaps": ()},
        {"attempt": 2},
    ],
)
def test_the_id_depends_on_everything_that_determines_the_output(change: dict[str, Any]) -> None:
    assert replace(PLAN, **change).replay_id != PLAN.replay_id


def test_a_plan_is_restored_from_json_and_a_changed_one_is_refused() -> None:
    content = json.loads(json.dumps(PLAN.as_json()))
    assert Plan.from_json(content).as_json() == PLAN.as_json()
    content["offsets"]["0"] = [[0, 3]]
    with pytest.raises(InputError, match="was changed"):
        Plan.from_json(content)
    with pytest.raises(InputError, match="not a plan"):
        Plan.from_json({"logic": 1})


def test_steps_take_a_share_of_every_partition_and_are_complete() -> None:
    plan = replace(PLAN, steps=4)
    parts = [plan.step(number) for number in range(4)]
    for partition, offsets in PLAN.offsets.items():
        taken = [
            offset for part in parts for offset in part.get(partition, OffsetRanges.of()).offsets()
        ]
        assert taken == list(offsets.offsets())
    assert [steps_for(records, 10) for records in (1, 10, 11, 95)] == [1, 1, 2, 10]


def test_a_checksum_does_not_depend_on_order_and_reveals_every_change() -> None:
    records = [("visits/0@0", b"k", b"v"), ("visits/0@1", None, b""), ("visits/0@2", b"", None)]

    def of(*chosen: tuple[str, bytes | None, bytes | None]) -> tuple[int, str]:
        total = Checksum()
        for record in chosen:
            total.add(*record)
        return total.records, str(total)

    assert of(*records) == of(*reversed(records))
    others = [
        of(*records[:2]),
        of(*records, records[0]),
        of(*records, records[0], records[0]),
        of(*records[:2], ("visits/0@2", None, b"")),
        of(*records[:2], ("visits/0@2", b"", b"")),
        of(("visits/0@0", b"kv", b""), *records[1:]),
    ]
    assert len({of(*records), *others}) == 7
    again = Checksum.parse(*of(*records))
    assert (again.records, str(again)) == of(*records)


def manifest() -> Manifest:
    result = StepResult(dead_letters=1)
    result.read.add("visits/0@0", b"k", b"v")
    return Manifest(PLAN, "run", result, "2025-01-01T00:00:00+00:00", "2025-01-01T00:00:01+00:00")


def test_a_change_of_a_signed_manifest_is_detected() -> None:
    content = json.loads(json.dumps(manifest().as_json("secret")))
    assert signature_problem(content, "secret") is None
    assert Manifest.from_json(content).as_json() == manifest().as_json()
    assert "another key" in (signature_problem(content, "other") or "")
    assert "no key is set" in (signature_problem(content, None) or "")
    changed = content | {"result": content["result"] | {"dead_letters": 0}}
    assert "was changed" in (signature_problem(changed, "secret") or "")
    invalid_signatures: list[Any] = [{}, [], {"algorithm": "HMAC-SHA256"}, {"value": 5}, "x"]
    for invalid in invalid_signatures:
        assert signature_problem(content | {"signature": invalid}, "secret")


def test_an_unsigned_manifest_is_valid_only_without_a_key() -> None:
    content = manifest().as_json()
    assert signature_problem(content, None) is None
    assert "not signed" in (signature_problem(content, "secret") or "")


def test_a_replay_is_found_by_a_prefix_of_its_id(tmp_path: Path) -> None:
    settings = load(home=tmp_path)
    for plan in (PLAN, replace(PLAN, attempt=2)):
        ReplayFolder.of(plan.replay_id, settings).begin(plan, "request", "2025")
    with pytest.raises(UnknownReplayError, match="several"):
        find_replay(PLAN.replay_id[:6], settings)
    # One id may be the prefix of another.
    assert find_replay(PLAN.replay_id, settings).replay_id == PLAN.replay_id
    assert find_replay(f"{PLAN.replay_id}-", settings).plan().attempt == 2
    for unknown in ("", "ffff", "../x"):
        with pytest.raises(UnknownReplayError):
            find_replay(unknown, settings)


def test_the_ledger_has_the_interrupted_step_and_the_results_of_the_others(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path / "replay")
    folder.begin(PLAN, "request", "2025")
    assert folder.state() == "0 of 1 steps"
    for step in range(2):
        folder.begin_step(step, PLAN.offsets, PLAN.topic)
        assert folder.progress().cut_off == step
        result = StepResult(skipped=2)
        result.outputs.add(f"visits/0@{step}", None, b"v")
        folder.commit_step(step, result)
        assert folder.progress().cut_off is None
    assert (folder.result().outputs.records, folder.result().skipped) == (2, 4)


def test_a_transform_is_loaded_by_name_from_a_module_or_from_a_file(tmp_path: Path) -> None:
    shipped = {"plan": "headwater.replay.plan:steps_for"}
    assert load_transform("plan", shipped).job_name == "steps_for"
    (tmp_path / "neighbour.py").write_text("NAME = 'upper'\n")
    file = tmp_path / "job.py"
    file.write_text(
        "from headwater import Transform\n"
        "from neighbour import NAME\n"
        "def upper(rows): return rows\n"
        "UPPER = Transform(NAME, upper, input_topic='a', output_topic='b')\n"
        "NUMBER = 5\n"
    )
    transform = load_transform(f"{file}:UPPER", shipped)
    assert (transform.job_name, transform.input_topic, transform.output_topic) == (
        "upper",
        "a",
        "b",
    )
    assert isinstance(transform, Transform)
    assert load_transform(f"{file}:upper", shipped).job_name == "upper"
    with pytest.raises(InputError, match="neither a transform nor a function"):
        load_transform(f"{file}:NUMBER", shipped)
    for unknown in ("other", "no.such.module:x", f"{tmp_path}/none.py:x"):
        with pytest.raises(UnknownJobError):
            load_transform(unknown, shipped)
