"""`why-missing` with a real broker: one result for every fate of a record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.checkpoints import write_checkpoint
from tests.stamped import dead_letter_headers, delete_before, stamped, write
from tests.support import Headwater

from headwater.delivery.dead_letter import redrive
from headwater.errors import CheckpointError, InputError, TopicNotFoundError
from headwater.kafka import create_topic
from headwater.model import Address, Record
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState
from headwater.testing import free_port
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate, Verdict, WhyMissing, why_missing

pytestmark = pytest.mark.kafka


class Hops:
    """Visits, decorated, then reduced: two jobs, one partition per topic."""

    def __init__(self, settings: Settings, make_topic: TopicMaker) -> None:
        self.settings = settings
        self.visits, self.decorated, self.reduced = (
            make_topic(name, partitions=1) for name in ("v", "v-d", "v-r")
        )
        for topic in (self.decorated, self.reduced):
            create_topic(f"{topic}-dead-letter", 1, settings.kafka)
        write(self.visits, [[]] * 10, settings)

    def decorate(self, *offsets: int) -> None:
        made = [stamped(f"{self.visits}/0@{n}", job="decorator") for n in offsets]
        write(self.decorated, made, self.settings)

    def reduce(self, *offsets: int) -> None:
        made = [stamped(f"{self.decorated}/0@{n}", job="reducer") for n in offsets]
        write(self.reduced, made, self.settings)

    def query(self, offset: int, topic: str | None = None, **options: object) -> WhyMissing:
        address = Address(self.visits, 0, offset)
        return why_missing(address, topic or self.reduced, self.settings, **options)  # type: ignore[arg-type]


@pytest.fixture
def hops(broker: Settings, make_topic: TopicMaker) -> Hops:
    return Hops(broker, make_topic)


def evidence(result: WhyMissing) -> list[str]:
    return [str(address) for address in result.verdict.evidence]


def test_an_output_is_found_over_two_hops(hops: Hops, headwater: Headwater) -> None:
    hops.decorate(*range(10))
    hops.reduce(*range(9, -1, -1))
    done = headwater("why-missing", f"{hops.visits}/0@3", "--in", hops.reduced, "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert (content["present"], content["fate"]) == (True, "present")
    assert content["evidence"] == [f"{hops.reduced}/0@6"]
    assert [hop["evidence"] for hop in content["hops"]] == [
        [f"{hops.decorated}/0@3"],
        [f"{hops.reduced}/0@6"],
    ]
    shown = headwater("why-missing", f"{hops.visits}/0@3", "--in", hops.reduced)
    assert shown.stdout.splitlines() == [
        f"{hops.visits}/0@3 in {hops.reduced}: present",
        f"  present: {hops.decorated}/0@3 was made from {hops.visits}/0@3",
        f"  present: {hops.reduced}/0@6 was made from {hops.decorated}/0@3",
    ]


@pytest.mark.parametrize("hop", ["decorated", "reduced"])
def test_a_dead_letter_is_found_at_any_hop_with_its_reason(
    hops: Hops, headwater: Headwater, hop: str
) -> None:
    hops.decorate(*(n for n in range(10) if hop == "reduced" or n != 3))
    hops.reduce(*range(9))
    output, source = (
        (hops.decorated, hops.visits) if hop == "decorated" else (hops.reduced, hops.decorated)
    )
    offset = 3 if hop == "decorated" else 9
    dead = f"{output}-dead-letter"
    write(dead, [dead_letter_headers(f"{source}/0@{offset}", message="bad \x1b[2J")], hops.settings)
    result = hops.query(offset)
    assert (result.fate, evidence(result)) == (Fate.DEAD_LETTERED, [f"{dead}/0@0"])
    assert "headwater.MalformedJson, bad" in result.verdict.sentence
    done = headwater("why-missing", f"{hops.visits}/0@{offset}", "--in", hops.reduced)
    assert done.returncode == 1
    assert "dead-lettered" in done.stdout.splitlines()[0]
    assert "\x1b" not in done.stdout


def test_a_redriven_record_is_followed_to_the_output_of_its_copy(hops: Hops) -> None:
    hops.decorate(*range(1, 10))
    write(
        f"{hops.decorated}-dead-letter", [dead_letter_headers(f"{hops.visits}/0@0")], hops.settings
    )
    # Dead letters have the values of the originals.
    redrive(hops.decorated, hops.settings)
    result = hops.query(0, hops.decorated)
    assert (result.fate, str(result.verdict.record)) == (Fate.NOT_YET_READ, f"{hops.visits}/0@10")
    hops.decorate(10)
    result = hops.query(0, hops.decorated)
    assert (result.fate, evidence(result)) == (Fate.PRESENT, [f"{hops.decorated}/0@9"])
    assert f"redriven as {hops.visits}/0@10" in result.hops[0].sentence
    write(
        f"{hops.reduced}-dead-letter", [dead_letter_headers(f"{hops.decorated}/0@9")], hops.settings
    )
    result = hops.query(0)
    assert (result.fate, len(result.hops)) == (Fate.DEAD_LETTERED, 3)
    # A dead letter can be queried, too.
    letter = Address(f"{hops.decorated}-dead-letter", 0, 0)
    assert why_missing(letter, hops.decorated, hops.settings).present


def test_a_late_record_is_found_in_the_late_topic(hops: Hops) -> None:
    late = f"{hops.decorated}-late"
    create_topic(late, 1, hops.settings.kafka)
    hops.decorate(*range(5, 10))
    write(
        late,
        [dead_letter_headers(f"{hops.visits}/0@4", reason="late", message="by 3 h")],
        hops.settings,
    )
    write(late, [stamped(f"{hops.visits}/0@3")], hops.settings)
    result = hops.query(4, hops.decorated)
    assert (result.fate, evidence(result)) == (Fate.LATE, [f"{late}/0@0"])
    assert result.verdict.sentence.endswith(f"was sent to {late}/0@0: late, by 3 h")
    assert hops.query(3, hops.decorated).verdict.sentence.endswith(f"was sent to {late}/0@1")


def test_without_a_checkpoint_the_result_is_an_estimate(hops: Hops, headwater: Headwater) -> None:
    hops.decorate(0, 1, 3, 4)
    not_yet, filtered = hops.query(7, hops.decorated), hops.query(2, hops.decorated)
    assert (not_yet.fate, not_yet.verdict.estimate) == (Fate.NOT_YET_READ, True)
    assert f"{hops.visits}/0@4" in not_yet.verdict.sentence
    assert (filtered.fate, filtered.verdict.estimate) == (Fate.FILTERED, True)
    shown = headwater("why-missing", f"{hops.visits}/0@2", "--in", hops.decorated)
    assert shown.stdout.startswith(
        f"{hops.visits}/0@2 in {hops.decorated}: filtered (an estimate)\n"
    )


def test_the_checkpoint_shows_which_records_were_read(hops: Hops, tmp_path: Path) -> None:
    hops.decorate(3, 5)
    checkpoint = write_checkpoint(
        tmp_path / "c",
        hops.visits,
        started={0: 2},
        committed={0: 7},
        planned={0: 9},
        outputs=(hops.decorated,),
    )

    def fate(offset: int) -> Fate:
        result = hops.query(offset, hops.decorated, checkpoint=checkpoint)
        assert not result.verdict.estimate
        return result.fate

    assert [fate(n) for n in (1, 3, 4, 6, 7, 9)] == [
        Fate.NEVER_READ,
        Fate.PRESENT,
        Fate.FILTERED,
        Fate.FILTERED,
        Fate.NOT_YET_READ,
        Fate.NOT_YET_READ,
    ]
    started = hops.query(7, hops.decorated, checkpoint=checkpoint)
    assert "batch 8" in started.verdict.sentence
    assert str(checkpoint) in started.verdict.sentence


def test_the_checkpoint_in_the_home_is_used_and_one_of_another_job_is_not(
    hops: Hops, headwater: Headwater, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    hops.decorate(0, 1, 2, 9)
    write_checkpoint(
        home / "checkpoints/other", hops.visits, committed={0: 9}, outputs=("elsewhere",)
    )
    (home / "checkpoints/damaged/commits").mkdir(parents=True)
    (home / "checkpoints/damaged/commits/5").write_text("v1\n{}")
    command = ("why-missing", f"{hops.visits}/0@5", "--in", hops.decorated, "--json")
    first = json.loads(headwater(*command, HEADWATER_HOME=str(home)).stdout)
    assert (first["fate"], first["estimate"]) == ("filtered", True)
    write_checkpoint(
        home / "checkpoints/own", hops.visits, committed={0: 5}, outputs=(hops.decorated,)
    )
    second = json.loads(headwater(*command, HEADWATER_HOME=str(home)).stdout)
    assert (second["fate"], second["estimate"]) == ("not yet read", False)
    named = headwater(*command, "--checkpoint", str(home / "checkpoints/damaged"))
    assert named.returncode == 2
    assert "damaged" in named.stderr


def test_a_checkpoint_leads_to_a_topic_that_is_still_empty(hops: Hops, tmp_path: Path) -> None:
    hops.decorate(*range(10))
    checkpoint = write_checkpoint(
        tmp_path / "c", hops.decorated, committed={0: 0}, planned={0: 10}, outputs=(hops.reduced,)
    )
    result = hops.query(4, checkpoint=checkpoint)
    assert (result.fate, str(result.verdict.record)) == (
        Fate.NOT_YET_READ,
        f"{hops.decorated}/0@4",
    )
    with pytest.raises(CheckpointError, match="started a batch"):
        hops.query(4, checkpoint=tmp_path)


def test_unlisted_parents_make_the_result_uncertain(hops: Hops) -> None:
    write(hops.decorated, [stamped(f"{hops.visits}/0@9", unlisted=4)], hops.settings)
    result = hops.query(5, hops.decorated)
    assert (result.fate, result.present) == (Fate.UNCERTAIN, False)
    assert "1 records" in result.verdict.sentence


def test_explainers_are_called_before_a_record_counts_as_filtered(
    hops: Hops,
) -> None:
    explained = []

    class Join:
        def explain(
            self, record: Address, output: str, checkpoint: CheckpointState | None
        ) -> Verdict | None:
            explained.append(str(record))
            return Verdict(record, output, Fate.LATE, "in state") if record.offset == 2 else None

        def remark(
            self,
            record: Address,
            output: str,
            outputs: Sequence[Record],
            checkpoint: CheckpointState | None,
        ) -> str | None:
            return f"{len(outputs)} alone"

    hops.decorate(0, 9)
    results = [hops.query(n, hops.decorated, explainers=[Join()]) for n in (2, 3, 0)]
    assert [each.fate for each in results] == [Fate.LATE, Fate.FILTERED, Fate.PRESENT]
    assert results[2].verdict.sentence.endswith("; 1 alone")
    assert explained == [f"{hops.visits}/0@2", f"{hops.visits}/0@3"]


def test_the_output_of_an_expired_record_is_found(hops: Hops) -> None:
    hops.decorate(0, 1, 3, 4)
    delete_before(hops.visits, 8, hops.settings)
    assert hops.query(1, hops.decorated).present
    gone = hops.query(2, hops.decorated)
    assert gone.fate is Fate.EXPIRED
    assert "has already read it" in gone.verdict.sentence
    unread = hops.query(6, hops.decorated)
    assert (unread.fate, "newest record" in unread.verdict.sentence) == (Fate.EXPIRED, True)


def test_a_record_that_never_existed_is_a_result_and_a_wrong_topic_is_an_error(
    hops: Hops, make_topic: TopicMaker, headwater: Headwater
) -> None:
    hops.decorate(*range(10))
    assert hops.query(10, hops.decorated).fate is Fate.NEVER_WAS
    absent = Address("never-made", 0, 0)
    assert why_missing(absent, hops.decorated, hops.settings).fate is Fate.NEVER_WAS
    never = headwater("why-missing", f"{hops.visits}/0@10", "--in", hops.decorated)
    assert never.returncode == 1
    with pytest.raises(TopicNotFoundError):
        hops.query(1, "never-made")
    with pytest.raises(InputError, match="itself"):
        hops.query(1, hops.visits)
    other = make_topic("other", partitions=1)
    write(other, [[]], hops.settings)
    with pytest.raises(InputError) as error:
        why_missing(Address(other, 0, 0), hops.decorated, hops.settings)
    assert error.value.attributes["parents_in"] == [hops.visits]


def test_a_cycle_of_forged_lineage_ends(hops: Hops) -> None:
    hops.decorate(*range(10))
    hops.reduce(*range(10))
    write(hops.decorated, [stamped(f"{hops.reduced}/0@0")], hops.settings)
    assert hops.query(3).present


def test_a_stopped_broker_exits_with_3(headwater: Headwater) -> None:
    done = headwater(
        "why-missing",
        "a/0@0",
        "--in",
        "b",
        KAFKA_BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}",
        HEADWATER_KAFKA__TIMEOUT_SECONDS="1",
    )
    assert done.returncode == 3
