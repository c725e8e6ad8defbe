"""Records whose parents are only known as ranges: every query treats them as within, never as
parents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint
from tests.edge_tables import edge, made, scan, within, write_index
from tests.stamped import RUN, stamped, write
from tests.support import Headwater

from headwater.errors import InputError
from headwater.kafka import RecordProducer, create_topic
from headwater.model import Address, AddressRange, JobOutput
from headwater.replay.ancestry import inputs_made_by, inputs_of
from headwater.service.record_queries import KafkaRecordQueries
from headwater.settings import Settings
from headwater.testing import assert_lineage
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import (
    Fate,
    OrderCheck,
    OrderViolation,
    impact,
    trace,
    verify,
    why_missing,
)
from headwater.tracing.report import CoverageState

pytestmark = pytest.mark.kafka


class Topics:
    """20 visits; `mapped` has one exact output, three of one range, and one that may have more
    parents; `reduced` was made from `mapped`."""

    def __init__(self, settings: Settings, make_topic: TopicMaker) -> None:
        self.settings = settings
        self.visits, self.mapped, self.reduced = (
            make_topic(name, partitions=1) for name in ("v", "v-m", "v-r")
        )
        write(self.visits, [[]] * 20, settings)
        self.range = f"{self.visits}/0@3..17"

    def map(self, *items: str) -> None:
        named = (item.replace("visits", self.visits) for item in items)
        write(self.mapped, [stamped(*named, job="mapper")], self.settings)

    def map_all(self) -> None:
        self.map("visits/0@0")
        for _ in range(3):
            self.map("~visits/0@3..17")

    def visit(self, offset: int) -> Address:
        return Address(self.visits, 0, offset)


@pytest.fixture
def topics(broker: Settings, make_topic: TopicMaker) -> Topics:
    return Topics(broker, make_topic)


def test_trace_shows_a_range_and_does_not_follow_it(topics: Topics, headwater: Headwater) -> None:
    topics.map("visits/0@1", "~visits/0@3..17", "?")
    node = trace(Address(topics.mapped, 0, 0), topics.settings)
    assert [parent.address for parent in node.parents] == [topics.visit(1)]
    assert node.ranges == (AddressRange(topics.visits, 0, 3, 17),)
    assert node.more_parents
    assert node.record_id is None
    done = headwater("trace", f"{topics.mapped}/0@0")
    assert done.returncode == 0, done.stderr
    assert f"within {topics.range} (15 records)" in done.stdout
    assert "may have more parents" in done.stdout
    content = json.loads(headwater("trace", f"{topics.mapped}/0@0", "--json").stdout)
    assert content["ranges"] == [
        {"topic": topics.visits, "partition": 0, "first": 3, "last": 17, "records": 15}
    ]
    assert (len(content["parents"]), content["more_parents"]) == (1, True)


def test_trace_reads_the_ranges_that_other_records_list(topics: Topics) -> None:
    listing, record_id = f"{topics.mapped}-parents", "ab" * 16
    create_topic(listing, 1, topics.settings.kafka)
    items = [f"{topics.visits}/0@2", f"~{topics.range}"]
    with RecordProducer(topics.settings.kafka) as producer:
        producer.send(listing, b"", record_id.encode(), headers=stamped(*items), partition=0)
        value = f"2 {RUN} {topics.visits}/0@1,?,+2 ={record_id} >{listing}/0@0".encode()
        headers = [("job_name", b"mapper"), ("lineage", value)]
        producer.send(topics.mapped, b"{}", b"k", headers=headers, partition=0)
    node = trace(Address(topics.mapped, 0, 0), topics.settings)
    assert [parent.address.offset for parent in node.parents] == [1, 2]
    assert (list(map(str, node.ranges)), node.unlisted) == ([topics.range], 0)
    # Neither is known to be lost.
    assert verify(topics.mapped, topics.visits, topics.settings).within == 15
    assert why_missing(topics.visit(4), topics.mapped, topics.settings).fate is Fate.WITHIN
    assert why_missing(topics.visit(2), topics.mapped, topics.settings).fate is Fate.PRESENT


def test_a_range_with_the_record_itself_is_not_believed(topics: Topics) -> None:
    write(topics.mapped, [stamped(f"~{topics.mapped}/0@0..5")], topics.settings)
    node = trace(Address(topics.mapped, 0, 0), topics.settings)
    assert (node.state.value, node.ranges) == ("unverified", ())
    assert "not yet written" in (node.reason or "")


def test_verify_counts_exact_and_within_and_loses_neither(
    topics: Topics, headwater: Headwater
) -> None:
    topics.map_all()
    report = verify(topics.mapped, topics.visits, topics.settings)
    assert (report.found, report.within, report.missing) == (1, 15, 4)
    assert (report.duplicates, report.out_of_order, report.made_from_ranges) == (0, 0, 3)
    assert report.state is CoverageState.PARTIAL
    topics.map("visits/0@1", "visits/0@2", "visits/0@18", "visits/0@19")
    report = verify(topics.mapped, topics.visits, topics.settings)
    assert (report.found, report.within, report.missing) == (5, 15, 0)
    assert (report.state, report.passed) == (CoverageState.WITHIN, False)
    done = headwater("verify", topics.mapped, "--source", topics.visits)
    assert done.returncode == 1
    assert "within ranges" in done.stdout
    assert (
        headwater("verify", topics.mapped, "--source", topics.visits, "--allow-ranges").returncode
        == 0
    )


def test_verify_is_uncertain_if_outputs_may_have_more_parents(topics: Topics) -> None:
    topics.map_all()
    topics.map("~visits/0@3..17", "?")
    report = verify(topics.mapped, topics.visits, topics.settings, allow_ranges=True)
    assert (report.missing, report.surely_missing, report.more_parents) == (4, 0, 1)
    assert (report.state, report.passed) == (CoverageState.UNCERTAIN, False)


def test_a_range_beyond_the_source_is_forged(topics: Topics) -> None:
    topics.map(f"~visits/0@0..{2**63 - 1}")
    report = verify(topics.mapped, topics.visits, topics.settings)
    assert (report.unknown_parents, report.state) == (1, CoverageState.CORRUPT)


def test_why_missing_finds_it_within_and_follows_no_further(
    topics: Topics, headwater: Headwater
) -> None:
    topics.map_all()
    write(topics.reduced, [stamped(f"{topics.mapped}/0@{n}") for n in range(4)], topics.settings)
    found = why_missing(topics.visit(5), topics.mapped, topics.settings)
    assert (found.fate, found.present) == (Fate.WITHIN, False)
    assert [address.offset for address in found.verdict.evidence] == [1, 2, 3]
    assert f"within {topics.range}" in found.verdict.sentence
    # One hop further it would be a guess.
    further = why_missing(topics.visit(5), topics.reduced, topics.settings)
    assert (further.fate, further.verdict.output) == (Fate.WITHIN, topics.mapped)
    assert why_missing(topics.visit(0), topics.reduced, topics.settings).fate is Fate.PRESENT
    done = headwater("why-missing", f"{topics.visits}/0@5", "--in", topics.mapped)
    assert (done.returncode, "within ranges" in done.stdout) == (1, True)


def test_a_record_outside_of_all_ranges_may_still_be_an_unknown_parent(
    topics: Topics, tmp_path: Path
) -> None:
    topics.map("~visits/0@3..17")
    checkpoint = write_checkpoint(tmp_path / "c", topics.visits, committed={0: 20})
    query = (topics.visit(1), topics.mapped, topics.settings)
    assert why_missing(*query, checkpoint=checkpoint).fate is Fate.FILTERED
    topics.map("?")
    assert why_missing(*query, checkpoint=checkpoint).fate is Fate.UNCERTAIN


def test_following_the_order_reports_neither_gaps_nor_copies_of_ranges(topics: Topics) -> None:
    topics.map_all()
    topics.map("visits/0@19")
    with OrderCheck(topics.mapped, topics.visits, topics.settings, settle_seconds=0) as check:
        found: list[OrderViolation] = []
        while check.report.judged < 5:
            found += check.step()
        found += [*check.step(), *check.finish()]
    # All visits have one key: 1, 2 and 18 were overtaken, and are in no range.
    assert sorted(each.finding.record.offset for each in found) == [1, 2, 18]
    assert check.report.made_from_ranges == 3


def test_an_assertion_on_parents_names_the_ranges(topics: Topics) -> None:
    topics.map("visits/0@1", "~visits/0@3..17", "?")
    with pytest.raises(AssertionError, match=r"parents within .*@3\.\.17\n.*more parents"):
        assert_lineage(
            Address(topics.mapped, 0, 0), parents=[topics.visit(1)], settings=topics.settings
        )


@pytest.fixture
def indexed(topics: Topics, tmp_path: Path) -> Topics:
    topics.map_all()
    write(topics.reduced, [stamped(f"{topics.mapped}/0@{n}") for n in range(4)], topics.settings)
    table = tmp_path / "index"
    write_index(
        table,
        [
            edge(f"{topics.visits}/0@0", f"{topics.mapped}/0@0"),
            within(f"{topics.range}", f"{topics.mapped}/0@1", 3),
            edge(f"{topics.mapped}/0@0", f"{topics.reduced}/0@0", 4),
            made(f"{topics.mapped}/0@0", 4, job="mapper"),
            made(f"{topics.reduced}/0@0", 4, job="reducer"),
            *(scan(f"{topic}/0@0", 4) for topic in (topics.mapped, topics.reduced)),
        ],
    )
    index = topics.settings.index.model_copy(update={"table": table})
    topics.settings = topics.settings.model_copy(update={"index": index, "home": tmp_path})
    return topics


def test_impact_marks_what_only_ranges_lead_to(indexed: Topics) -> None:
    found = impact(indexed.visit(5), indexed.settings)
    assert (found.counts, found.within_counts) == ({}, {indexed.mapped: 3, indexed.reduced: 3})
    assert [(child.address.offset, child.within) for child in found.children] == [
        (1, True),
        (2, True),
        (3, True),
    ]
    assert {child.state.value for child in found.children} == {"found"}
    (below,) = found.children[0].children
    assert (below.address, below.within) == (Address(indexed.reduced, 0, 1), True)
    content = found.as_json()
    assert content["children"][0]["within"]
    exact = impact(indexed.visit(0), indexed.settings)
    assert (exact.counts, exact.within_counts) == ({indexed.mapped: 1, indexed.reduced: 1}, {})


def test_a_replay_takes_a_complete_range_only_if_that_is_requested(indexed: Topics) -> None:
    output, settings = Address(indexed.mapped, 0, 1), indexed.settings
    with pytest.raises(InputError, match=f"within {indexed.visits}") as refused:
        inputs_of([output], indexed.visits, settings)
    assert "--allow-ranges" in (refused.value.hint or "")
    allowed = inputs_of([output], indexed.visits, settings, allow_ranges=True)
    assert allowed[0].ranges() == [(3, 17)]
    exact = inputs_of([Address(indexed.mapped, 0, 0)], indexed.visits, settings)
    assert exact[0].ranges() == [(0, 0)]
    for job in ("mapper", "reducer"):
        with pytest.raises(InputError, match="within"):
            inputs_made_by(JobOutput(job), indexed.visits, settings)
        complete = inputs_made_by(JobOutput(job), indexed.visits, settings, allow_ranges=True)
        assert complete[0].ranges() == [(0, 0), (3, 17)]


def test_a_replay_never_guesses_unknown_parents(topics: Topics) -> None:
    topics.map("~visits/0@3..17", "?")
    with pytest.raises(InputError, match="may have more parents"):
        inputs_of([Address(topics.mapped, 0, 0)], topics.visits, topics.settings, allow_ranges=True)


def test_the_page_is_given_ranges_and_a_command_that_states_them(indexed: Topics) -> None:
    queries = KafkaRecordQueries(indexed.settings)
    ancestry = queries.ancestry(indexed.mapped, 0, 1)
    assert ancestry is not None
    assert ancestry["ranges"][0]["records"] == 15
    found = queries.impact(indexed.visits, 0, 5)
    assert found is not None
    assert found["within_counts"] == {indexed.mapped: 3, indexed.reduced: 3}
    replay = queries.replay(indexed.mapped, 0, 1)
    assert replay is not None
    assert "--allow-ranges" in replay["command"]
    assert "all records" in replay["note"]
