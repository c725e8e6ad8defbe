"""The join on a real broker and a real Spark, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.joins import RunningJoin, dropped, state_rows, visit, watermark
from tests.lineage_events import columns, names, spooled
from tests.support import Headwater

from headwater.errors import CheckpointError, StateLimitError
from headwater.jobs.visits_ads.times import TIMES_FILE
from headwater.jobs.visits_ads.waiting import JoinExplainer
from headwater.model import Address
from headwater.model.dead_letter import BAD_TIMESTAMP, LATE, MALFORMED, MISSING_FIELD, read_letter
from headwater.model.headers import origin_of
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Coverage, Fate, WhyMissing, verify, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def join(
    broker: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path
) -> RunningJoin:
    return RunningJoin(broker, spark, make_topic, tmp_path / "checkpoint")


def test_the_script_gives_its_rows_at_its_moments(join: RunningJoin) -> None:
    with join.running() as query:
        join.visit(("visit-1", "08:18:00", "home"), ("visit-2", "08:20:00", "home"))
        query.processAllAvailable()
        assert join.new_values() == []

        join.ad(("home", "08:18:15", "supermarket"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-1","event_time":"2024-01-01T08:18:00.000Z","visit_page":"home",'
            '"page":"home","display_time":"2024-01-01T08:18:15.000Z","campaign_name":"supermarket"}'
        ]
        assert watermark(query) == "08:08:15"

        join.visit(("visit-3", "08:58:00", "category1"), ("visit-4", "09:00:00", "category2"))
        query.processAllAvailable()
        assert join.new_values() == []

    # The catalog hears of both inputs, not of the heartbeats between them, and of their columns.
    first, *_, last = spooled(join.settings, join.output)
    assert (first["eventType"], last["eventType"]) == ("START", "ABORT")
    assert set(names(first, "inputs")) == {join.visits, join.ads}
    assert names(first, "outputs")[0] == join.output
    campaign = columns(first)["value.campaign_name"]
    assert "IDENTITY" in campaign[f"{join.ads}:value.campaign_name"]
    assert last["run"]["facets"]["headwater_progress"]["rowsOut"] == 1

    # A restart in between makes no difference, even if the last note of the time is lost.
    (join.checkpoint / TIMES_FILE).unlink()
    with join.running() as query:
        join.ad(("category3", "09:00:15", "supermarket"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-2","event_time":"2024-01-01T08:20:00.000Z","visit_page":"home"}'
        ]
        assert watermark(query) == "08:50:00"

        join.ad(("category4", "09:10:30", "internet provider"))
        query.processAllAvailable()
        join.visit(("visit-5", "08:58:00", "category4"))
        query.processAllAvailable()
        assert join.new_values() == []

        join.visit(("visit-6", "09:09:00", "category4"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-6","event_time":"2024-01-01T09:09:00.000Z",'
            '"visit_page":"category4","page":"category4",'
            '"display_time":"2024-01-01T09:10:30.000Z","campaign_name":"internet provider"}'
        ]
        assert watermark(query) == "08:59:00"

        join.visit(("visit-100", "10:09:00", "category6"))
        query.processAllAvailable()
        assert join.new_values() == [
            '{"visit_id":"visit-3","event_time":"2024-01-01T08:58:00.000Z",'
            '"visit_page":"category1"}',
            '{"visit_id":"visit-5","event_time":"2024-01-01T08:58:00.000Z",'
            '"visit_page":"category4"}',
        ]
        assert watermark(query) == "09:00:30"
        assert dropped(query) == 0

    found = {}
    for record in join.records():
        lineage = origin_of(record).lineage
        assert lineage is not None
        found[record.key] = [str(parent) for parent in lineage.parents]
    assert found == {
        b"visit-1": [f"{join.visits}/0@0", f"{join.ads}/0@0"],
        b"visit-2": [f"{join.visits}/0@1"],
        b"visit-6": [f"{join.visits}/0@5", f"{join.ads}/0@2"],
        b"visit-3": [f"{join.visits}/0@2"],
        b"visit-5": [f"{join.visits}/0@4"],
    }
    assert join.records("-late") == join.records("-dead-letter") == []


def test_what_can_not_be_joined_is_set_aside_with_its_reason_and_asked_for(
    join: RunningJoin, headwater: Headwater, tmp_path: Path
) -> None:
    metrics = tmp_path / "join.prom"
    with join.running("--metrics-file", str(metrics)) as query:
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
        late = visit("late", "08:50:00.000", "home")
        join.send(join.visits, late, visit("in-time", "08:50:00.001", "home"))
        join.ad(("home", "08:49:00", "too old"), ("home", "08:50:00.001", "car rental"))
        query.processAllAvailable()
        join.visit(("waiting", "09:01:00", "page_1"))
        query.processAllAvailable()
        assert dropped(query) == 0

    read = map(read_letter, join.records("-dead-letter"))
    letters = {str(letter.origin): letter for letter in read}
    assert {origin: (each.reason, each.record.key) for origin, each in letters.items()} == {
        str(join.visit_at(0)): (MALFORMED, b"raw key"),
        str(join.visit_at(1)): (MISSING_FIELD, b"raw key"),
        str(join.visit_at(2)): (BAD_TIMESTAMP, b"raw key"),
        str(join.ad_at(0)): (MALFORMED, b"raw key"),
    }
    assert letters[str(join.visit_at(0))].record.value == b"{........"

    set_aside = [read_letter(record) for record in join.records("-late")]
    first, second = sorted(set_aside, key=lambda letter: str(letter.origin), reverse=True)
    assert (first.origin, first.reason, first.record.value) == (
        join.visit_at(6),
        LATE,
        late.encode(),
    )
    assert first.message == (
        "late by 0.000 s: event_time 2024-01-01T08:50:00.000Z, watermark "
        f"2024-01-01T08:50:00.000Z, batch {first.batch}"
    )
    assert second.origin == join.ad_at(3)
    assert "late by 60.000 s: display_time 2024-01-01T08:49:00.000Z" in (second.message or "")

    values = {record.key: record.value for record in join.records()}
    assert set(values) == {b"raw key", b"visit-1", b"visit-2", b"in-time"}
    assert values[b"raw key"] is None  # the tombstone
    assert b"car rental" in (values[b"in-time"] or b"")

    counted = metrics.read_text()
    for line in (
        f'headwater_join_late_total{{output="{join.output}",side="visits"}} 1.0',
        f'headwater_join_late_total{{output="{join.output}",side="ads"}} 1.0',
        f'headwater_join_malformed_total{{output="{join.output}",side="visits"}} 3.0',
        f'headwater_join_malformed_total{{output="{join.output}",side="ads"}} 1.0',
        f'headwater_join_records_total{{output="{join.output}",side="visits"}} 9.0',
        f'headwater_join_dropped_rows_total{{output="{join.output}"}} 0.0',
    ):
        assert line in counted, counted
    assert f'headwater_join_state_rows{{output="{join.output}"}} 5.0' in counted, counted

    def ask(record: Address) -> WhyMissing:
        return why_missing(
            record,
            join.output,
            join.settings,
            checkpoint=join.checkpoint,
            explainers=[JoinExplainer(join.settings)],
        )

    assert ask(join.visit_at(0)).fate is Fate.DEAD_LETTERED
    assert ask(join.visit_at(6)).fate is Fate.LATE
    assert "late by 0.000 s" in ask(join.visit_at(6)).verdict.sentence
    unmatched = ask(join.visit_at(4))
    assert unmatched.present
    assert unmatched.verdict.sentence.endswith(
        "unmatched: no ad came for it within 0 seconds to 2 minutes after its event_time"
    )
    assert "unmatched" not in ask(join.visit_at(5)).verdict.sentence
    assert ask(join.ad_at(1)).fate is Fate.UNMATCHED
    place = ("--in", join.output, "--checkpoint", str(join.checkpoint))
    told = headwater("why-missing", str(join.visit_at(8)), *place)
    assert told.returncode == 1
    assert "waiting: " in told.stdout
    assert "until the watermark is past 2024-01-01T09:03:00.000Z" in told.stdout
    assert "it is 2024-01-01T08:50:00.000Z" in told.stdout

    # Three visits and the tombstone came out, one waits; one of the ads found no visit.
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
    assert (visits.found, visits.dead_lettered, visits.waiting) == (4, 4, 1), visits.as_json()
    assert (ads.found, ads.dead_lettered, ads.filtered) == (2, 2, 1), ads.as_json()
    assert (visits.state, ads.state) == (Coverage.FULL, Coverage.FULL)

    # One more is too many; the batch is done all the same.
    join.visit(("visit-3", "09:01:00", "page_1"))
    with pytest.raises(StateLimitError, match="has 6 rows after batch") as stopped:
        join.run("--available-now", "--max-state-rows", "6")
    assert "--max-state-rows" in (stopped.value.hint or "")
    with pytest.raises(CheckpointError, match="matches: all, not first"):
        join.run("--available-now", "--matches", "first")


def test_a_quiet_topic_no_longer_holds_back_the_other_and_only_old_records_are_late(
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
        # Ten minutes older than the newest visit is the bound: what is newer still matches.
        join.ad(("home", "09:00:30", "car rental"), ("home", "08:50:00", "too old"))
        query.processAllAvailable()
        (matched,) = join.new_values()
        assert '"visit_id":"visit-2"' in matched
        assert '"campaign_name":"car rental"' in matched
        assert dropped(query) == 0
    (late,) = join.records("-late")
    assert read_letter(late).origin == join.ad_at(2)
    # On a slow machine the visits were quiet, too, for longer than a second.
    beats = {((beat.key or b"").split()[0], beat.value) for beat in join.records("-heartbeat")}
    assert (join.ads.encode(), b"2024-01-01T09:00:00.000Z") in beats


@pytest.mark.parametrize("matches", ["first", "nearest"])
def test_of_several_ads_a_visit_takes_one(
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
