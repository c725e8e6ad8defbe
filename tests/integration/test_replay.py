"""Replays of a real archive: exactly the selected records, in order, once."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.edge_tables import edge, made, scan, write_index
from tests.lines.environments import needs_delta
from tests.support import Headwater

from headwater.errors import InputError, ReplayRefusedError
from headwater.jobs import data_synchronization_job, visits_converter_streaming_job
from headwater.jobs.shared_job_logic import VISITS_CONVERTER
from headwater.kafka import RecordProducer, create_topic, delete_topics, end_offsets, read_topic
from headwater.model import Address, JobOutput, Record
from headwater.model.header import origin_of
from headwater.replay.checking import check_replay
from headwater.replay.manifest import Manifest
from headwater.replay.operation import replay, undo_replay
from headwater.replay.plan import table_target
from headwater.replay.planning import PlannedReplay, make_plan
from headwater.replay.preview import preview
from headwater.replay.request import Request
from headwater.replay.rows import ORDER_CONFIGURATION, ArchivedRows
from headwater.replay.runner import ReplayOutcome
from headwater.replay.selection import Selection
from headwater.settings import Settings
from headwater.spark.compat import json_column
from headwater.spark.configuration import configured
from headwater.storage.archive.contract import archive_path
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_delta]

# With every Spark; `json:…` only from 4.0 on.
FIELD = "cast(get_json_object(value, '$.visit_id') as int)"
CLICKS, CONVERTED = "replay-clicks", "replay-converted"
# In each partition; the last one of partition 1 is malformed.
RECORDS = 12
# The offset after them in partition 0: a record that has been replayed too often.
LOOPING = RECORDS


@dataclass
class World:
    """An archive of clicks, and the output of the streaming job."""

    settings: Settings
    spark: SparkSession
    sent: list[Record]
    converted: list[Record]

    def request(self, offsets: dict[int, Any] | None = None, **more: Any) -> Request:
        conditions = {name: more.pop(name) for name in list(more) if name in _CONDITIONS}
        ranges = None if offsets is None else {p: (pair,) for p, pair in offsets.items()}
        request = Request(
            name="visits_converter",
            transform=VISITS_CONVERTER,
            selection=Selection(CLICKS, ranges, **conditions),
            job_version="v1.0.0",
            target=CONVERTED,
        )
        return replace(request, **more)

    def plan(self, request: Request) -> PlannedReplay:
        return make_plan(request, self.settings, lambda: self.spark)

    def run(self, request: Request) -> ReplayOutcome:
        return replay(request, self.settings, lambda: self.spark)

    def manifest(self, request: Request) -> Manifest:
        manifest = self.run(request).manifest
        assert manifest is not None
        return manifest

    def selected(self, request: Request) -> list[str]:
        """The addresses of the offsets that a plan selects."""
        plan = self.plan(request).plan
        return [
            f"{partition}@{offset}"
            for partition, ranges in sorted(plan.offsets.items())
            for offset in ranges.offsets()
        ]


_CONDITIONS = {"since_ms", "until_ms", "key", "where", "inputs_of", "made_by"}


@pytest.fixture(scope="module")
def world(broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("replay")
    settings = broker.model_copy(update={"home": folder / "home"})
    for topic in (CLICKS, CONVERTED):
        create_topic(topic, 2, settings.kafka)
    with RecordProducer(settings.kafka) as producer:
        for number in range(RECORDS):
            for partition in (0, 1):
                bad = (number, partition) == (RECORDS - 1, 1)
                producer.send(
                    CLICKS,
                    b"{oops" if bad else _click(number),
                    b"%d" % (number % 3),
                    partition=partition,
                )
            if number == RECORDS // 2 - 1:
                producer.flush()
                # Gives the two halves different timestamps.
                time.sleep(0.05)
        headers = [("replay_count", b"3"), ("traceparent", b"00-1")]
        producer.send(CLICKS, _click(59), b"loop", partition=0, headers=headers)
    _run(data_synchronization_job, settings, "--input-topic", CLICKS)
    _run(
        visits_converter_streaming_job,
        settings,
        *("--input-topic", CLICKS, "--output-topic", CONVERTED, "--job-version", "v1.0.0"),
    )
    converted = list(read_topic(CONVERTED, settings.kafka))
    return World(settings, spark, list(read_topic(CLICKS, settings.kafka)), converted)


def _click(number: int) -> bytes:
    page = "home" if number % 2 else "index"
    content = {"event_id": f"click-{number}", "visit_id": number % 3}
    content |= {"event_time": f"2025-09-04T07:{number:02}:00.000000", "page": page}
    return json.dumps(content).encode()


def _run(job: Any, settings: Settings, *options: str) -> None:
    job.main.main(["--available-now", "--quiet", *options], standalone_mode=False, obj=settings)


def new_topic(name: str, world: World) -> str:
    create_topic(name, 2, world.settings.kafka)
    return name


def parents(records: list[Record]) -> list[str]:
    addresses = []
    for record in records:
        lineage = origin_of(record).lineage
        assert lineage is not None
        addresses += [f"{parent.partition}@{parent.offset}" for parent in lineage.parents]
    return addresses


@pytest.mark.lines
def test_exactly_the_selected_records_are_replayed_in_order_and_once(world: World) -> None:
    target = new_topic("replay-ranges", world)
    request = world.request({0: (0, 2), 1: (5, 9)}, target=target)
    outcome = world.run(request)
    assert outcome.new
    assert outcome.manifest is not None
    written = list(read_topic(target, world.settings.kafka))
    expected = ["0@0", "0@1", "0@2", "1@5", "1@6", "1@7", "1@8", "1@9"]
    assert sorted(parents(written)) == expected
    for partition in (0, 1):
        of_output = [record for record in written if record.address.partition == partition]
        for source in ("0@", "1@"):
            in_order = [each for each in parents(of_output) if each.startswith(source)]
            assert in_order == sorted(in_order)
    # The same record ids and values as the output of the streaming job, and the replay's headers.
    original = {origin_of(record).record_id: record.value for record in world.converted}
    for record in written:
        assert original[origin_of(record).record_id] == record.value
        assert record.header("replay_id") == outcome.folder.replay_id.encode()
        assert record.header("replay_count") == b"1"
    assert (outcome.manifest.result.read.records, outcome.manifest.result.outputs.records) == (8, 8)

    again = world.run(request)
    assert (again.new, again.folder.replay_id) == (False, outcome.folder.replay_id)
    assert sum(end_offsets(target, world.settings.kafka).values()) == 8
    forced = world.run(replace(request, again=True))
    assert forced.folder.replay_id == f"{outcome.folder.replay_id}-2"
    other_version = world.run(replace(request, job_version="v2"))
    assert other_version.folder.replay_id != outcome.folder.replay_id
    assert sum(end_offsets(target, world.settings.kafka).values()) == 24

    # The replays in the same topic are distinguished.
    for folder in (outcome.folder, forced.folder, other_version.folder):
        assert check_replay(folder, world.settings, lambda: world.spark).findings == []


@pytest.mark.parametrize("delivery", ["exactly-once", "transactional"])
def test_a_step_that_was_written_and_not_committed_is_not_written_again(
    world: World, delivery: str
) -> None:
    target = new_topic(f"replay-interrupted-{delivery}", world)
    request = world.request({0: (0, 5), 1: (0, 5)}, target=target, delivery=delivery)
    folder = world.run(request).folder
    before = list(read_topic(target, world.settings.kafka))
    # The state after a kill between the last record and the commit.
    (folder.path / "commits" / "0").unlink()
    (folder.path / "manifest.json").unlink()
    assert folder.state() == "0 of 1 steps"
    outcome = world.run(request)
    assert outcome.folder.replay_id == folder.replay_id
    assert list(read_topic(target, world.settings.kafka)) == before
    assert len(before) == 12
    assert outcome.manifest is not None
    assert outcome.manifest.result.already_written == (12 if delivery == "exactly-once" else 0)
    assert check_replay(folder, world.settings, lambda: world.spark).findings == []


def test_an_interrupted_step_is_refused_if_its_target_was_recreated(world: World) -> None:
    target = new_topic("replay-recreated", world)
    request = world.request({0: (0, 5)}, target=target)
    folder = world.run(request).folder
    (folder.path / "commits" / "0").unlink()
    (folder.path / "manifest.json").unlink()
    delete_topics([target], world.settings.kafka)
    new_topic(target, world)
    with pytest.raises(ReplayRefusedError, match=f"the topic '{target}' with the id") as refused:
        world.run(request)
    assert f"remove {folder.path}" in (refused.value.hint or "")
    assert sum(end_offsets(target, world.settings.kafka).values()) == 0


def test_each_partition_is_read_by_one_task(world: World) -> None:
    rows = ArchivedRows.open(world.spark, Archive.open(CLICKS, world.settings), {}, {})
    offsets = {partition: OffsetRanges.of((0, 9)) for partition in (0, 1)}
    tasks = rows.in_order(offsets).withColumn("task", F.spark_partition_id())
    with configured(world.spark, ORDER_CONFIGURATION):
        assert tasks.select("partition", "task").distinct().count() == 2
        assert tasks.select("task").distinct().count() == 2


def test_a_check_finds_later_changes(world: World) -> None:
    target = new_topic("replay-checked", world)
    outcome = world.run(world.request({0: (0, 3)}, target=target))
    content = outcome.folder.manifest_content()
    assert content is not None
    file = outcome.folder.path / "manifest.json"
    content["result"]["written_checksum"] = "0" * 16
    file.write_text(json.dumps(content))
    check = check_replay(outcome.folder, world.settings, lambda: world.spark)
    assert check.findings == ["the target has 4 records, but some have changed"]
    content["result"] |= {"written": 5, "read": 3}
    file.write_text(json.dumps(content))
    check = check_replay(outcome.folder, world.settings, lambda: world.spark)
    assert check.findings == [
        "the archive has 4 records, not 3",
        "the target has 4 records, not 5",
    ]


@pytest.mark.lines
def test_conditions_on_time_key_and_predicate_can_be_combined(world: World) -> None:
    half = next(each for each in world.sent if each.address == Address(CLICKS, 0, RECORDS // 2))
    since, everything = half.timestamp_ms, {0: (0, RECORDS - 1), 1: (0, RECORDS - 1)}
    later = world.request(everything, since_ms=since)
    assert world.plan(later).plan.records == {0: 6, 1: 6}
    earlier = world.request(everything, until_ms=since, key="1")
    assert world.plan(earlier).plan.records == {0: 2, 1: 2}
    # Narrowed to the first and last match: 1, 3, 5 … are `home`, of which 1 and 7 have the key 1.
    narrowed = world.plan(world.request(where="page = 'home'", key="1")).plan
    assert narrowed.records == {0: 2, 1: 2}
    assert {p: each.ranges() for p, each in narrowed.offsets.items()} == {0: [(1, 7)], 1: [(1, 7)]}
    visit = "json:visit_id::int" if json_column(F.col("value")) else FIELD
    by_field = f"{visit} = 2 and event_time < '2025-09-04T07:03'"
    assert world.plan(world.request(everything, where=by_field)).plan.records == {0: 1, 1: 1}
    target = new_topic("replay-filtered", world)
    request = world.request(where="page = 'home' and partition = 1", key="1", target=target)
    outcome = world.run(request)
    assert parents(list(read_topic(target, world.settings.kafka))) == ["1@1", "1@7"]
    assert check_replay(outcome.folder, world.settings, lambda: world.spark).passed
    with pytest.raises(InputError, match="no archived record"):
        world.plan(world.request(key="unknown"))


@pytest.mark.parametrize(
    ("predicate", "reason"),
    [
        ("page", "not a boolean"),
        ("page = 'home'; DROP TABLE visits", "Syntax error"),
        ("DELETE FROM visits", "Syntax error"),
        ("page IN (SELECT page FROM visits)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("rand() < 0.5", "chance"),
        ("timestamp < now()", "depends on the clock"),
        ("reflect('java.lang.System', 'exit', 0) = ''", "calls into Java"),
        ("java_method('java.lang.System', 'exit', 0) = ''", "calls into Java"),
        ("no_such_column = 1", "cannot be resolved"),
        ("no_such_function(page)", "cannot be resolved|Cannot resolve"),
        ("'" + "x" * 10_001 + "' = page", "longer than"),
    ],
)
def test_a_predicate_may_only_compare(world: World, predicate: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        world.plan(world.request(where=predicate))


def test_inputs_are_selected_by_their_outputs(world: World, tmp_path: Path) -> None:
    outputs = [each for each in world.converted if parents([each]) in (["0@4"], ["1@7"])]
    addresses = tuple(each.address for each in outputs)
    assert world.selected(world.request(inputs_of=addresses)) == ["0@4", "1@7"]
    within = world.request({0: (0, 5)}, inputs_of=addresses)
    assert world.selected(within) == ["0@4"]
    with pytest.raises(InputError, match=f"was not made from topic '{CLICKS}'"):
        world.plan(world.request(inputs_of=(Address(CLICKS, 0, 0),)))


def test_inputs_of_the_output_of_a_job_are_selected_by_the_index(
    world: World, tmp_path: Path
) -> None:
    """Two hops: the output of batch 3 of `later` was made from the converter's output."""
    rows = [
        edge(f"{CLICKS}/0@2", f"{CONVERTED}/1@10", 4),
        edge(f"{CLICKS}/1@0", f"{CONVERTED}/0@0", 3),
        edge(f"{CONVERTED}/1@11", "later/0@5", 2),
        edge(f"{CONVERTED}/0@2", "later/0@7"),
        edge(f"{CONVERTED}/0@0", "later/0@8"),
        made("later/0@5", 3, "later", "v1", 3),
        made("later/0@8", 1, "later", "v1", 4),
        scan("later/0@0", 9),
    ]
    write_index(tmp_path / "index", rows)
    index = world.settings.index.model_copy(update={"table": tmp_path / "index"})
    indexed = replace(world, settings=world.settings.model_copy(update={"index": index}))
    job = JobOutput("later", "v1", (3, 3))
    assert indexed.selected(indexed.request(made_by=job)) == ["0@3", "0@4", "1@2"]
    assert indexed.selected(indexed.request({1: (0, 9)}, made_by=job)) == ["1@2"]
    with pytest.raises(InputError, match="no output of job 'later' in version 'v9'"):
        indexed.plan(indexed.request(made_by=JobOutput("later", "v9")))


def test_offsets_that_are_not_archived_are_refused_by_name(world: World, tmp_path: Path) -> None:
    with pytest.raises(ReplayRefusedError, match=f"{CLICKS}/1@12 to 20: not archived yet"):
        world.plan(world.request({1: (10, 20)}))
    allowed = world.plan(world.request({1: (10, 20)}, allow_gaps=True)).plan
    assert [str(gap) for gap in allowed.gaps] == [f"{CLICKS}/1@12 to 20: not archived yet"]
    # Deleted data files.
    copy = tmp_path / "archive"
    shutil.copytree(archive_path(CLICKS, world.settings).parent, copy)
    for file in copy.rglob("part-*.parquet"):
        file.unlink()
    archive = world.settings.archive.model_copy(update={"folder": copy})
    damaged = replace(world, settings=world.settings.model_copy(update={"archive": archive}))
    with pytest.raises(ReplayRefusedError, match="a gap in the archive"):
        damaged.plan(damaged.request({0: (0, 2)}))


def test_a_replay_that_would_feed_itself_is_refused(world: World) -> None:
    with pytest.raises(ReplayRefusedError, match="the target is the source"):
        world.plan(world.request({0: (0, 2)}, target=CLICKS))
    assert world.plan(world.request({0: (0, 2)}, target=CLICKS, force=True)).plan.target == CLICKS
    target = new_topic("replay-loop", world)
    with pytest.raises(ReplayRefusedError, match="replayed 3 times already"):
        world.run(world.request({0: (0, LOOPING)}, target=target))
    assert sum(end_offsets(target, world.settings.kafka).values()) == 0
    more = world.settings.replay.model_copy(update={"max_replays": 4})
    tolerant = replace(world, settings=world.settings.model_copy(update={"replay": more}))
    tolerant.run(world.request({0: (LOOPING, LOOPING)}, target=target))
    (record,) = read_topic(target, world.settings.kafka)
    # The count is increased; other headers are kept.
    assert [value for name, value in record.headers if name == "replay_count"] == [b"4"]
    assert record.header("traceparent") == b"00-1"


def shout(rows: DataFrame) -> DataFrame:
    """The converter with a change for some pages."""
    value = F.col("value").cast("string")
    changed = F.when(value.contains("home"), F.upper(value)).otherwise(value)
    return VISITS_CONVERTER.function(rows).withColumn("value", changed)


def test_existing_results_are_skipped_and_a_preview_shows_the_others(
    world: World,
) -> None:
    same = world.request({0: (0, 5), 1: (10, 11)}, skip_existing=True)
    before = end_offsets(CONVERTED, world.settings.kafka)
    manifest = world.manifest(same)
    assert end_offsets(CONVERTED, world.settings.kafka) == before
    # The malformed record is already in the dead letter topic.
    assert (manifest.result.read.records, manifest.result.skipped) == (8, 8)

    changed = replace(VISITS_CONVERTER, function=shout)
    request = replace(same, transform=changed, name="shout", job_version="v2")
    plan = world.plan(request).plan
    shown = preview(plan, changed, world.spark, world.settings, 4)
    assert [each.identity for each in shown if each.same] == [f"{CLICKS}/0@0", f"{CLICKS}/0@2"]
    different = {each.identity: (each.old, each.new) for each in shown if not each.same}
    old, new = different[f"{CLICKS}/0@1"]
    assert new == (old or b"").upper()
    assert end_offsets(CONVERTED, world.settings.kafka) == before
    manifest = world.manifest(request)
    assert (manifest.result.outputs.records, manifest.result.skipped) == (3, 5)
    written = list(read_topic(CONVERTED, world.settings.kafka, start=before))
    assert sorted(parents(written)) == ["0@1", "0@3", "0@5"]


def test_an_undo_deletes_exactly_the_rows_of_the_replay(world: World, tmp_path: Path) -> None:
    path = tmp_path / "converted"
    target = table_target(path)
    request = world.request({0: (0, 4)}, target=target)
    first = world.manifest(request)
    other = world.manifest(world.request({0: (3, 5), 1: (11, 11)}, target=target))
    # A record that can't be processed is not written to the table, but counted.
    assert (other.result.outputs.records, other.result.dead_letters) == (3, 1)

    def rows() -> list[tuple[int, str]]:
        table = world.spark.read.format("delta").load(str(path))
        collected = table.select("lineage.offset", "lineage.run_id", "lineage.record_id").collect()
        ids = {origin_of(record).record_id for record in world.converted}
        assert {row["record_id"] for row in collected} <= ids
        return sorted((row["offset"], row["run_id"]) for row in collected)

    both = rows()
    assert len(both) == 8
    folder = world.run(request).folder
    assert check_replay(folder, world.settings, lambda: world.spark).passed
    undone = undo_replay(folder, world.settings, lambda: world.spark)
    assert (undone.state, undone.undone_rows) == ("undone", 5)
    assert rows() == [row for row in both if row[1] == other.run_id]
    assert check_replay(folder, world.settings, lambda: world.spark).passed
    again = undo_replay(folder, world.settings, lambda: world.spark)
    assert again.as_json() == undone.as_json()
    # After an undo, the same request runs again.
    repeated = world.manifest(request)
    assert repeated.plan.replay_id == f"{first.plan.replay_id}-2"
    assert len(rows()) == 8
    skipping = world.manifest(replace(request, skip_existing=True))
    assert (skipping.result.outputs.records, skipping.result.skipped) == (0, 5)
    topic = world.run(world.request({0: (0, 0)}, target=new_topic("replay-final", world)))
    with pytest.raises(ReplayRefusedError, match="can't be undone"):
        undo_replay(topic.folder, world.settings, lambda: world.spark)


def test_the_command_plans_without_spark_lists_shows_and_verifies(
    world: World, headwater: Headwater
) -> None:
    run: Callable[..., Any] = lambda *words, **more: headwater(  # noqa: E731
        *words, settings=world.settings, **more
    )
    ranges = json.dumps({CLICKS: {"0": [0, 2]}})
    dry = ("replay", "visits_converter", "--offsets", ranges, "--dry-run")
    done = run(*dry, "--to", "x", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert "Spark" not in done.stderr
    assert (plan["record_count"], plan["gaps"], plan["already_there"]) == (3, [], 0)
    assert (plan["can_be_undone"], plan["state"], len(plan["files"])) == (False, "new", 1)
    text = run(*dry, "--to", CONVERTED)
    assert "not possible: records can't be deleted from a topic" in text.stdout
    known = world.run(world.request({0: (0, 3)}, target="replay-checked-2")).folder.replay_id
    listed = json.loads(run("replay", "list", "--json").stdout)
    assert known in {row["replay_id"] for row in listed}
    shown = run("replay", "show", known[:8])
    assert f"replay     {known}" in shown.stdout
    assert "4 records, checksum" in shown.stdout
    assert run("replay", "verify", known).returncode == 0
    signed = run("replay", "verify", known, HEADWATER_REPLAY__SIGNING_KEY="key")
    assert signed.returncode == 1
    assert "it is not signed, though a key is set" in signed.stdout
    for words, code in (
        (("replay", "visits_converter"), 2),
        (("replay", "nothing", "--key", "1"), 2),
        (("replay", "show", "ffff"), 2),
        (("run", "visits_converter_reprocessing_job", "0", "2", "--input-topic", CLICKS), 2),
    ):
        assert run(*words).returncode == code
