"""The join on a real broker and a real Spark, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.joins import RunningJoin, dropped, state_rows, visit, watermark
from tests.lineage_events import columns, names, spooled
from tests.support import Headwater

from headwater.errors import CheckpointError, StateLimitError
from headwater.join.times import TIMES_FILE
from headwater.join.waiting import JoinExplainer
from headwater.kafka import create_topic
from headwater.model import Address
from headwater.model.dead_letter import BAD_TIMESTAMP, LATE, MALFORMED, MISSING_FIELD, read_letter
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import CoverageState, Fate, WhyMissing, verify, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def join(
    broker: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path
) -> RunningJoin:
    return RunningJoin(broker, spark, make_topic, tmp_path / "checkpoint")


NewJoin = Callable[[str], RunningJoin]


@pytest.fixture(scope="module")
def new_join(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> NewJoin:
    """Creates joins that several tests of this module share."""

    def new(prefix: str) -> RunningJoin:
        def make_topic(name: str = "topic", *, partitions: int = 2) -> str:
            topic = f"{prefix}.{name}"
            create_topic(topic, partitions, broker.kafka)
            return topic

        return RunningJoin(
            broker, spark, make_topic, tmp_path_factory.mktemp(prefix) / "checkpoint"
        )

    return new


@dataclass
class Script:
    """The output and, where requested, the watermark of each step."""

    join: RunningJoin
    rows: list[list[str]] = field(default_factory=list)
    watermarks: list[str | None] = field(default_factory=list)

    def step(self, query: StreamingQuery, *, with_watermark: bool = False) -> None:
        query.processAllAvailable()
        self.rows.append(self.join.new_values())
        self.watermarks.append(watermark(query) if with_watermark else None)


@pytest.fixture(scope="module")
def script(new_join: NewJoin) -> Script:
    join = new_join("scripted-join")
    script = Script(join)
    with join.running() as query:
        join.visit(("visit-1", "08:18:00", "home"), ("visit-2", "08:20:00", "home"))
        script.step(query)
        join.ad(("home", "08:18:15", "supermarket"))
        script.step(query, with_watermark=True)
        join.visit(("visit-3", "08:58:00", "category1"), ("visit-4", "09:00:00", "category2"))
        script.step(query)
    # A restart makes no difference, even if the stored times of the sides are lost.
    (join.checkpoint / TIMES_FILE).unlink()
    with join.running() as query:
        join.ad(("category3", "09:00:15", "supermarket"))
        script.step(query, with_watermark=True)
        join.ad(("category4", "09:10:30", "internet provider"))
        query.processAllAvailable()
        join.visit(("visit-5", "08:58:00", "category4"))
        script.step(query)
        join.visit(("visit-6", "09:09:00", "category4"))
        script.step(query, with_watermark=True)
        join.visit(("visit-100", "10:09:00", "category6"))
        script.step(query, with_watermark=True)
        assert dropped(query) == 0
    return script


def test_each_row_is_written_as_soon_as_its_match_or_the_watermark_allows(script: Script) -> None:
    assert script.rows == [
        [],
        [
            '{"visit_id":"visit-1","event_time":"2024-01-01T08:18:00.000Z","visit_page":"home",'
            '"page":"home","display_time":"2024-01-01T08:18:15.000Z","campaign_name":"supermarket"}'
        ],
        [],
        ['{"visit_id":"visit-2","event_time":"2024-01-01T08:20:00.000Z","visit_page":"home"}'],
        [],
        [
            '{"visit_id":"visit-6","event_time":"2024-01-01T09:09:00.000Z",'
            '"visit_page":"category4","page":"category4",'
            '"display_time":"2024-01-01T09:10:30.000Z","campaign_name":"internet provider"}'
        ],
        [
            '{"visit_id":"visit-3","event_time":"2024-01-01T08:58:00.000Z",'
            '"visit_page":"category1"}',
            '{"visit_id":"visit-5","event_time":"2024-01-01T08:58:00.000Z",'
            '"visit_page":"category4"}',
        ],
    ]
    watermarks = [each for each in script.watermarks if each is not None]
    assert watermarks == ["08:08:15", "08:50:00", "08:59:00", "09:00:30"]


def test_the_events_have_both_inputs_and_their_columns_but_no_heartbeats(script: Script) -> None:
    join = script.join
    events = spooled(join.settings, join.output)
    first = events[0]
    of_first_run = [each for each in events if each["run"]["runId"] == first["run"]["runId"]]
    last = of_first_run[-1]
    assert (first["eventType"], last["eventType"]) == ("START", "ABORT")
    assert set(names(first, "inputs")) == {join.visits, join.ads}
    assert names(first, "outputs")[0] == join.output
    campaign = columns(first)["value.campaign_name"]
    assert "IDENTITY" in campaign[f"{join.ads}:value.campaign_name"]
    assert last["run"]["facets"]["headwater_progress"]["rowsOut"] == 1


def test_each_row_has_its_visit_and_its_ad_as_parents(script: Script) -> None:
    join = script.join
    parents = {}
    for record in join.records():
        lineage = origin_of(record).lineage
        assert lineage is not None
        parents[record.key] = [str(parent) for parent in lineage.parents]
    assert parents == {
        b"visit-1": [f"{join.visits}/0@0", f"{join.ads}/0@0"],
        b"visit-2": [f"{join.visits}/0@1"],
        b"visit-6": [f"{join.visits}/0@5", f"{join.ads}/0@2"],
        b"visit-3": [f"{join.visits}/0@2"],
        b"visit-5": [f"{join.visits}/0@4"],
    }
    assert join.records("-late") == join.records("-dead-letter") == []


LATE_VISIT = visit("late", "08:50:00.000", "home")


@pytest.fixture(scope="module")
def rejecting(new_join: NewJoin) -> RunningJoin:
    """A join that has read records which can't be joined, and has a visit that waits."""
    join = new_join("rejecting-join")
    with join.running("--metrics-file", str(metrics_file(join))) as query:
        join.send(join.visits, b"{........", '{"visit_id": "x"}', visit("x", "later", "home"), None)
        join.send(join.ads, b"[]")
        join.visit(("visit-1", "08:00:00", "home"))
        join.ad(("other", "08:00:00", "book shop"))
        query.processAllAvailable()
        assert state_rows(query) == 2
        join.visit(("visit-2", "09:00:00", "home"))
        join.ad(("home", "09:00:00", "book shop"))
        query.processAllAvailable()
        # The watermark is at 08:50:00.
        join.send(join.visits, LATE_VISIT, visit("in-time", "08:50:00.001", "home"))
        join.ad(("home", "08:49:00", "too old"), ("home", "08:50:00.001", "car rental"))
        query.processAllAvailable()
        join.visit(("waiting", "09:01:00", "page_1"))
        query.processAllAvailable()
        assert dropped(query) == 0
    return join


def metrics_file(join: RunningJoin) -> Path:
    return join.checkpoint.with_name("join.prom")


def test_malformed_records_are_dead_letters_with_their_reason(rejecting: RunningJoin) -> None:
    join = rejecting
    letters = {
        str(letter.origin): letter for letter in map(read_letter, join.records("-dead-letter"))
    }
    assert {origin: (each.reason, each.record.key) for origin, each in letters.items()} == {
        str(join.visit_at(0)): (MALFORMED, b"raw key"),
        str(join.visit_at(1)): (MISSING_FIELD, b"raw key"),
        str(join.visit_at(2)): (BAD_TIMESTAMP, b"raw key"),
        str(join.ad_at(0)): (MALFORMED, b"raw key"),
    }
    assert letters[str(join.visit_at(0))].record.value == b"{........"
    values = {record.key: record.value for record in join.records()}
    assert set(values) == {b"raw key", b"visit-1", b"visit-2", b"in-time"}
    assert values[b"raw key"] is None  # the tombstone
    assert b"car rental" in (values[b"in-time"] or b"")


def test_late_records_go_to_the_late_topic_with_their_delay(rejecting: RunningJoin) -> None:
    join = rejecting
    letters = [read_letter(record) for record in join.records("-late")]
    of_visit, of_ad = sorted(letters, key=lambda letter: str(letter.origin), reverse=True)
    assert (of_visit.origin, of_visit.reason) == (join.visit_at(6), LATE)
    assert of_visit.record.value == LATE_VISIT.encode()
    assert of_visit.message == (
        "late by 0.000 s: event_time 2024-01-01T08:50:00.000Z, watermark "
        f"2024-01-01T08:50:00.000Z, batch {of_visit.batch}"
    )
    assert of_ad.origin == join.ad_at(3)
    assert "late by 60.000 s: display_time 2024-01-01T08:49:00.000Z" in (of_ad.message or "")


def test_the_metrics_count_late_and_malformed_records_of_each_side(rejecting: RunningJoin) -> None:
    output = rejecting.output
    metrics = metrics_file(rejecting).read_text()
    for line in (
        f'headwater_join_late_total{{output="{output}",side="visits"}} 1.0',
        f'headwater_join_late_total{{output="{output}",side="ads"}} 1.0',
        f'headwater_join_malformed_total{{output="{output}",side="visits"}} 3.0',
        f'headwater_join_malformed_total{{output="{output}",side="ads"}} 1.0',
        f'headwater_join_records_total{{output="{output}",side="visits"}} 9.0',
        f'headwater_join_dropped_rows_total{{output="{output}"}} 0.0',
        f'headwater_join_state_rows{{output="{output}"}} 5.0',
    ):
        assert line in metrics, metrics


def test_why_missing_explains_what_happened_to_each_record(
    rejecting: RunningJoin, headwater: Headwater
) -> None:
    join = rejecting

    def explain(record: Address) -> WhyMissing:
        return why_missing(
            record,
            join.output,
            join.settings,
            checkpoint=join.checkpoint,
            explainers=[JoinExplainer(join.settings)],
        )

    assert explain(join.visit_at(0)).fate is Fate.DEAD_LETTERED
    assert explain(join.visit_at(6)).fate is Fate.LATE
    assert "late by 0.000 s" in explain(join.visit_at(6)).verdict.sentence
    unmatched = explain(join.visit_at(4))
    assert unmatched.present
    assert unmatched.verdict.sentence.endswith(
        f"unmatched: {join.ads} had no match within 0 seconds to 2 minutes after its event_time"
    )
    assert "unmatched" not in explain(join.visit_at(5)).verdict.sentence
    assert explain(join.ad_at(1)).fate is Fate.UNMATCHED
    options = ("--in", join.output, "--checkpoint", str(join.checkpoint))
    waiting = headwater("why-missing", str(join.visit_at(8)), *options)
    assert waiting.returncode == 1
    assert "waiting: " in waiting.stdout
    assert "until the watermark is past 2024-01-01T09:03:00.000Z" in waiting.stdout
    assert "it is 2024-01-01T08:50:00.000Z" in waiting.stdout


def test_verify_accounts_for_waiting_and_unmatched_records(rejecting: RunningJoin) -> None:
    join = rejecting
    visits, ads = (
        verify(
            join.output,
            side,
            join.settings,
            checkpoint=join.checkpoint,
            explainers=[JoinExplainer(join.settings)],
        )
        for side in (join.visits, join.ads)
    )
    # Three visits and the tombstone were written, one waits; one of the ads has no visit.
    assert (visits.found, visits.dead_lettered, visits.waiting) == (4, 4, 1), visits.as_json()
    assert (ads.found, ads.dead_lettered, ads.filtered) == (2, 2, 1), ads.as_json()
    assert (visits.state, ads.state) == (CoverageState.FULL, CoverageState.FULL)


def test_a_full_state_stops_the_job_and_its_checkpoint_keeps_the_rule(join: RunningJoin) -> None:
    join.visit(("visit-1", "09:00:00", "home"), ("visit-2", "09:01:00", "home"))
    with pytest.raises(StateLimitError, match="has 2 rows after batch") as stopped:
        join.run("--available-now", "--max-state-rows", "2")
    assert "--max-state-rows" in (stopped.value.hint or "")
    with pytest.raises(CheckpointError, match="matches: all, not first"):
        join.run("--available-now", "--matches", "first")


def test_an_idle_topic_does_not_hold_back_the_other_and_only_old_records_are_late(
    join: RunningJoin,
) -> None:
    with join.running("--idle-timeout", "1 second") as query:
        join.ad(("other", "08:00:00", "book shop"))
        join.visit(("visit-1", "08:00:00", "home"), ("visit-2", "09:00:00", "home"))
        join.wait_for_records(1)
        (alone,) = join.new_values()
        assert '"visit_id":"visit-1"' in alone
        query.processAllAvailable()
        assert watermark(query) == "08:50:00"
        # Ads less than ten minutes older than the newest visit still match.
        join.ad(("home", "09:00:30", "car rental"), ("home", "08:50:00", "too old"))
        query.processAllAvailable()
        (matched,) = join.new_values()
        assert '"visit_id":"visit-2"' in matched
        assert '"campaign_name":"car rental"' in matched
        assert dropped(query) == 0
    (late,) = join.records("-late")
    assert read_letter(late).origin == join.ad_at(2)
    # On a slow machine the visits may have been idle for longer than a second as well.
    beats = {((beat.key or b"").split()[0], beat.value) for beat in join.records("-heartbeat")}
    assert (join.ads.encode(), b"2024-01-01T09:00:00.000Z") in beats


@pytest.mark.parametrize("matches", ["first", "nearest"])
def test_a_visit_gets_one_of_several_ads(
    join: RunningJoin, capfd: pytest.CaptureFixture[str], matches: str
) -> None:
    with join.running("--matches", matches) as query:
        join.send(join.ads, b"{")
        join.visit(("visit-1", "08:00:00", "home"), ("visit-2", "08:00:00", "about"))
        join.ad(("home", "08:01:30", "last"), ("home", "08:00:10", "early"))
        query.processAllAvailable()
        assert len(join.new_values()) == (matches == "first")
        join.ad(("home", "08:00:05", "nearest"))
        query.processAllAvailable()
        assert join.new_values() == []
        join.visit(("visit-3", "09:00:00", "home"))
        join.ad(("other", "09:00:00", "book shop"))
        query.processAllAvailable()
        join.visit(("late", "08:00:00", "home"))
        join.visit(("visit-4", "09:30:00", "home"))
        join.ad(("other", "09:30:00", "book shop"))
        query.processAllAvailable()
        assert dropped(query) == 0
    values = {record.key: (record.value or b"").decode() for record in join.records()}
    assert set(values) == {b"visit-1", b"visit-2", b"visit-3"}
    assert len(join.records()) == 3
    if matches == "nearest":
        assert '"campaign_name":"nearest"' in values[b"visit-1"]
    assert "campaign_name" not in values[b"visit-2"] + values[b"visit-3"]
    assert [read_letter(letter).origin for letter in join.records("-dead-letter")] == [
        join.ad_at(0)
    ]
    assert [read_letter(letter).origin for letter in join.records("-late")] == [join.visit_at(3)]
