"""The walk over records from untrusted writers: bounded, each record is read once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.kafka import Absence
from headwater.model import Address, Header, Lineage, Record
from headwater.model.header import STAMP_HEADERS, JobStamp, encode
from headwater.tracing import RecordSources, RecordState, TraceNode, walk

RUN = "0190c5f2-1111-7222-8333-444455556666"
STAMP = JobStamp("job", "v1", 7).headers(STAMP_HEADERS)


def at(name: str) -> Address:
    """A topic per record, unless the name has an offset."""
    topic, _, offset = name.partition("@")
    return Address(topic, 0, int(offset or 0))


def made_from(*parents: Address, unlisted: int = 0) -> tuple[Header, ...]:
    return (*STAMP, ("lineage", encode(Lineage(RUN, parents, unlisted))))


class Memory:
    """Records in memory, and how often each was fetched."""

    def __init__(
        self,
        parents: Mapping[str, Sequence[str]],
        headers: Mapping[str, Sequence[Header]] | None = None,
        absent: Mapping[str, Absence] | None = None,
    ) -> None:
        self._headers: dict[Address, tuple[Header, ...]] = {
            at(name): made_from(*map(at, claimed)) if claimed else ()
            for name, claimed in parents.items()
        }
        self._headers |= {at(name): tuple(each) for name, each in (headers or {}).items()}
        self._absent = {at(name): absence for name, absence in (absent or {}).items()}
        self.fetched: Counter[Address] = Counter()

    def fetch(self, address: Address) -> Record | Absence:
        self.fetched[address] += 1
        if address not in self._headers:
            return self._absent.get(address, Absence.NO_PARTITION)
        return Record(address, None, str(address).encode(), self._headers[address], 1)


def trace(
    name: str, memory: Memory, *, max_records: int = 10_000, max_depth: int = 100
) -> TraceNode:
    sources: RecordSources = [(RecordState.FOUND, memory)]
    return walk(at(name), sources, max_records=max_records, max_depth=max_depth)


def paths(content: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Every path from the record to one without parents."""
    queue = [[content]]
    while queue:
        path = queue.pop()
        if not path[-1]["parents"]:
            yield path
        queue += [[*path, parent] for parent in path[-1]["parents"]]


def test_three_hops_are_nested() -> None:
    node = trace("c", Memory({"a": [], "b": ["a"], "c": ["b"]}))
    content = node.as_json()
    keys = "topic partition offset job_name job_version batch_version run_id state parents".split()
    assert {key: content[key] for key in keys[:-1]} == {
        "topic": "c",
        "partition": 0,
        "offset": 0,
        "job_name": "job",
        "job_version": "v1",
        "batch_version": 7,
        "run_id": RUN,
        "state": "found",
    }
    source = content["parents"][0]["parents"][0]
    assert source["topic"] == "a"
    assert (source["job_name"], source["state"], source["parents"]) == (None, "found", [])
    assert set(keys) <= set(source)


def test_duplicates_have_the_same_record_id() -> None:
    expected = Lineage(None, (at("a"),)).identity("job")
    assert trace("b", Memory({"a": [], "b": ["a"]})).record_id == expected


def test_a_shared_ancestor_is_read_once_and_shown_twice() -> None:
    memory = Memory({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    content = trace("d", memory).as_json()
    assert [[node["topic"] for node in path] for path in paths(content)] == [
        ["d", "c", "a"],
        ["d", "b", "a"],
    ]
    assert memory.fetched[at("a")] == 1


def test_the_number_of_shown_nodes_is_limited() -> None:
    graph = {f"n{i}": [f"n{i - 1}", f"m{i - 1}"] if i else [] for i in range(90)}
    graph |= {f"m{i}": [f"n{i - 1}", f"m{i - 1}"] if i else [] for i in range(90)}
    memory = Memory(graph)
    content = trace("n89", memory).as_json()
    assert max(memory.fetched.values()) == 1
    text = json.dumps(content)
    assert text.count('"topic"') == 10_000
    assert '"truncated": true' in text


def test_a_parent_that_is_listed_twice_is_one_parent() -> None:
    assert len(trace("b", Memory({"a": [], "b": ["a", "a"]})).parents) == 1


def test_a_record_that_names_itself_is_unverified() -> None:
    memory = Memory({"a": [], "b": ["a", "b"]})
    node = trace("b", memory)
    assert (node.state, node.parents) == (RecordState.UNVERIFIED, ())
    assert "itself" in (node.reason or "")
    assert node.job_name == "job"
    assert memory.fetched == {at("b"): 1}


def test_a_parent_that_was_written_later_is_unverified() -> None:
    node = trace("a@5", Memory({"a@5": ["a@6"], "a@6": []}))
    assert (node.state, node.parents) == (RecordState.UNVERIFIED, ())
    assert "a/0@6" in (node.reason or "")
    earlier = trace("a@6", Memory({"a@6": ["a@5"], "a@5": []}))
    assert earlier.parents[0].state is RecordState.FOUND


@pytest.mark.parametrize("length", [2, 3, 50])
def test_a_cycle_ends_where_it_closes(length: int) -> None:
    memory = Memory({f"n{i}": [f"n{(i + 1) % length}"] for i in range(length)})
    (path,) = paths(trace("n0", memory).as_json())
    assert [node["topic"] for node in path] == [*(f"n{i}" for i in range(length)), "n0"]
    assert [node["state"] for node in path] == ["found"] * length + ["unverified"]
    assert "own ancestor" in path[-1]["reason"]
    assert path[-1]["job_name"] == "job"
    assert max(memory.fetched.values()) == 1


@pytest.mark.parametrize(
    ("absence", "state"),
    [
        (Absence.EXPIRED, "expired"),
        (Absence.HOLE, "expired"),
        (Absence.BEYOND_END, "unverified"),
        (Absence.NO_PARTITION, "unverified"),
        (Absence.NOT_ALLOWED, "unverified"),
    ],
)
def test_a_missing_parent_ends_the_walk_with_a_reason(absence: Absence, state: str) -> None:
    content = trace("b", Memory({"b": ["a"]}, absent={"a": absence})).as_json(values=True)
    (parent,) = content["parents"]
    assert (parent["state"], parent["reason"]) == (state, absence.value)
    assert (parent["job_name"], parent["parents"]) == (None, [])
    assert ("value" in content, "value" in parent) == (True, False)


def test_expired_records_are_read_from_the_archive() -> None:
    kafka = Memory({"b": ["a"]}, absent={"a": Absence.EXPIRED, "x": Absence.EXPIRED})
    archive = Memory({"a": ["x"]}, absent={"x": Absence.NO_PARTITION})
    sources: RecordSources = [(RecordState.FOUND, kafka), (RecordState.ARCHIVED, archive)]
    node = walk(at("b"), sources, max_records=10, max_depth=10)
    (archived,) = node.parents
    assert (node.state, archived.state) == (RecordState.FOUND, RecordState.ARCHIVED)
    # A record that is not in the archive either is expired, as in Kafka.
    assert archived.parents[0].state is RecordState.EXPIRED
    assert at("b") not in archive.fetched


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"\xff\x00", "malformed"),
        (None, "malformed"),
        (b"7 - a/0@0", "other version"),
        (b"1 - " + b"a" * 70_000, "too long"),
    ],
)
def test_an_unreadable_header_is_unverified_with_a_reason(header: bytes | None, why: str) -> None:
    node = trace("b", Memory({}, headers={"b": [*STAMP, ("lineage", header)]}))
    assert (node.state, node.parents) == (RecordState.UNVERIFIED, ())
    assert (node.reason or "").endswith(why)
    assert node.job_name == "job"


def test_job_headers_without_lineage_give_a_reason() -> None:
    node = trace("b", Memory({}, headers={"b": STAMP}))
    assert (node.state, node.job_name, node.parents) == (RecordState.FOUND, "job", ())
    assert "no lineage header" in (node.reason or "")


def test_parents_that_the_header_does_not_list_are_counted() -> None:
    node = trace("b", Memory({"a": []}, headers={"b": made_from(at("a"), unlisted=936)}))
    assert (node.unlisted, node.truncated, len(node.parents)) == (936, False, 1)


def test_text_that_is_not_utf_8_is_base64_in_json() -> None:
    headers: list[Header] = [("job_name", b"a\xff"), ("job_version", b"v\xc3\xa9")]
    content = trace("b", Memory({}, headers={"b": headers})).as_json()
    assert content["job_name"] == {"base64": "Yf8="}
    assert content["job_version"] == "vé"
    json.dumps(content).encode()


def chain(length: int) -> Memory:
    return Memory({f"n{i}": [f"n{i + 1}"] if i + 1 < length else [] for i in range(length)})


def test_a_long_chain_is_cut_at_the_maximum_depth() -> None:
    memory = chain(20_000)
    node = trace("n0", memory)
    assert len(memory.fetched) == 101
    (path,) = paths(node.as_json())
    assert [hop["truncated"] for hop in path] == [False] * 100 + [True]
    json.loads(json.dumps(node.as_json(), indent=2))


def test_a_chain_of_20_000_is_followed_with_higher_limits() -> None:
    memory = chain(20_000)
    node: TraceNode | None = trace("n0", memory, max_records=40_000, max_depth=40_000)
    assert repr(node)
    content = node.as_json(max_depth=40_000) if node else {}
    length = 0
    while node is not None:
        length += 1
        node = node.parents[0] if node.parents else None
    assert length == 20_000
    while content["parents"]:
        (content,) = content["parents"]
    assert (content["topic"], content["truncated"]) == ("n9999", True)


def test_a_path_longer_than_the_maximum_depth_is_cut() -> None:
    # Each is also a parent of the first: near by one path, far by another.
    graph = {f"n{i}": [f"n{i + 1}"] for i in range(1, 140)}
    memory = Memory({"n0": [f"n{i}" for i in range(1, 140)], **graph, "n140": []})
    content = trace("n0", memory).as_json()
    assert max(len(path) for path in paths(content)) == 101


def test_many_parents_are_cut_at_the_maximum_number_of_records() -> None:
    wide = [f"p{i}" for i in range(4000)]
    memory = Memory(
        {"top": ["l", "m", "r"], "l": wide, "m": [f"q{i}" for i in range(4000)]}
        | {"r": [f"r{i}" for i in range(4000)]}
    )
    node = trace("top", memory)
    assert sum(memory.fetched.values()) == 10_000
    assert [parent.truncated for parent in node.parents] == [False, False, True]
    assert [len(parent.parents) for parent in node.parents] == [4000, 4000, 1996]


names = [f"n{i}" for i in range(7)]
graphs = st.dictionaries(
    st.sampled_from(names), st.lists(st.sampled_from(names), max_size=5), max_size=len(names)
)


@given(graphs, st.integers(1, 12), st.integers(0, 8))
@settings(deadline=None)
def test_each_record_of_any_graph_is_read_once(
    graph: dict[str, list[str]], max_records: int, max_depth: int
) -> None:
    memory = Memory(graph)
    content = trace("n0", memory, max_records=max_records, max_depth=max_depth).as_json()
    assert set(memory.fetched.values()) == {1}
    assert len(memory.fetched) <= max_records
    for path in paths(content):
        topics = [node["topic"] for node in path]
        assert len(set(topics[:-1])) == len(topics) - 1
        # A record that occurs twice on a path closes a cycle, and is unverified.
        if topics[-1] in topics[:-1]:
            assert path[-1]["state"] == "unverified"


@given(graphs)
@settings(deadline=None)
def test_without_limits_exactly_the_ancestors_are_read(graph: dict[str, list[str]]) -> None:
    memory = Memory(graph)
    trace("n0", memory)
    reached, queue = {"n0"}, ["n0"]
    while queue:
        name = queue.pop()
        parents = [] if name in graph.get(name, []) else graph.get(name, [])
        queue += [parent for parent in parents if parent not in reached]
        reached |= set(parents)
    assert {address.topic for address in memory.fetched} == reached
