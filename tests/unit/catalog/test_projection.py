"""The projection of events does not depend on their order or on duplicates."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog_support import dataset, run_event, run_id

from headwater.catalog.identity import content_id, job_version_id
from headwater.catalog.ingest import (
    BadEventError,
    Event,
    limit_event,
    parse_json,
    project,
    read_event,
)
from headwater.catalog.ingest.json_text import canonical_bytes, json_text
from headwater.catalog.store.symlinks import canonical_names

KINDS = st.sampled_from(["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"])
START = datetime(2026, 1, 1, tzinfo=UTC)


def _event(kind: str, minute: int, names: list[str], facet: int) -> Event:
    at = (START + timedelta(minutes=minute)).isoformat()
    column = {"inputFields": [{"namespace": "mentioned", "name": names[0], "field": "a"}]}
    written = {"namespace": "kafka://k", "topic": "t", "partition": 0, "first": 0, "last": facet}
    output = dataset(
        names[-1],
        fields=["b"],
        columnLineage={"fields": {"b": column}},
        symlinks={"identifiers": [{"namespace": "hive", "name": names[0]}]},
        dataSource={"name": f"source {facet}", "uri": names[0]},
    )
    return read_event(
        run_event(
            kind,
            run=run_id(str(minute % 2)),
            at=at,
            inputs=[dataset(names[0], fields=["a"])],
            outputs=[output],
            run_facets={
                "seen": {"number": facet},
                "headwater_offsets": {"batch": 0, "jobVersion": names[0], "outputs": [written]},
                # Runs that name each other's jobs: the events of the run itself take precedence.
                "parent": {
                    "run": {"runId": run_id(str((minute + 1) % 2))},
                    "job": {"namespace": "tests", "name": names[0]},
                },
            },
        )
    )


EVENTS = st.lists(
    st.builds(
        _event,
        KINDS,
        st.integers(0, 5),
        st.lists(st.sampled_from("xyz"), min_size=1, max_size=2),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@given(EVENTS, st.randoms(use_true_random=False))
def test_any_order_with_duplicates_gives_the_same_rows(events: list[Event], rng: Any) -> None:
    repeated = [*events, *events]
    rng.shuffle(repeated)
    assert project(repeated) == project(events)


def _nested(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["eventType", "eventTime", "run", "job", "inputs", "schemaURL", "x"])
    return st.lists(values, max_size=3) | st.dictionaries(keys, values, max_size=5)


@settings(max_examples=200)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), _nested, max_leaves=20))
def test_an_invalid_body_always_raises_bad_event(value: Any) -> None:
    with pytest.raises(BadEventError) as error:
        read_event(value)
    assert error.value.status in (400, 422)
    assert error.value.errors or error.value.message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventTime": "yesterday"}, "eventTime"),
        ({"eventTime": "2026-01-01T00:00:00"}, "eventTime"),
        ({"eventTime": True}, "eventTime"),
        ({"eventTime": 1e300}, "eventTime"),
        ({"eventType": "DONE"}, "eventType"),
        ({"run": {"runId": "7"}}, "run.runId"),
        ({"run": {"runId": {}}}, "run.runId"),
        ({"job": {"namespace": " ", "name": "x"}}, "job.namespace"),
        ({"job": {"namespace": "n", "name": "a\0b"}}, "job.name"),
        ({"job": {"namespace": "n", "name": "a" * 3000}}, "job.name"),
        ({"inputs": {}}, "inputs"),
        ({"inputs": [7]}, "inputs[0]"),
        ({"outputs": [dataset("x", fields=[""])]}, "outputs[0].facets.schema.fields[0].name"),
        ({"schemaURL": "no url"}, "schemaURL"),
        ({"producer": None}, "producer"),
    ],
)
def test_an_invalid_field_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadEventError) as error:
        read_event({**run_event(), **change})
    assert error.value.errors[0].split(" ")[0] == field


def test_the_key_of_an_event_does_not_depend_on_the_order_of_its_fields() -> None:
    event = run_event()
    reordered = dict(reversed(event.items()))
    assert read_event(event).key == read_event(reordered).key
    assert read_event(event).key != read_event({**event, "extra": 1}).key


def test_integers_of_any_size_are_kept() -> None:
    text = b'{"n": 123456789012345678901234567890, "f": 1.5}'
    value = parse_json(text, 10)
    assert value["n"] == 123456789012345678901234567890
    assert "123456789012345678901234567890" in json_text(value)
    assert content_id(canonical_bytes(value)) == content_id(canonical_bytes(value))


@pytest.mark.parametrize("depth", [11, 5_000, 200_000])
def test_deeply_nested_json_is_refused(depth: int) -> None:
    with pytest.raises(BadEventError) as error:
        parse_json(b"[" * depth + b"]" * depth, 10)
    assert error.value.status == 413


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b'"\\ud800"', b"\xff", b'{"a":1}{'])
def test_invalid_json_is_refused(text: bytes) -> None:
    with pytest.raises(BadEventError) as error:
        parse_json(text, 10)
    assert error.value.status == 400


def test_a_job_version_is_the_same_as_in_marquez() -> None:
    version = job_version_id("golden", "dag_orders", [], [], None)
    assert str(version) == "8a665362-fbf0-3ebb-be91-535749c84830"


def test_a_long_chain_of_symlinks_is_walked_once() -> None:
    # Walking the chain again for each link would take hours.
    chain = [content_id(str(i).encode()) for i in range(20_000)]
    links = [(alias, target, START) for alias, target in itertools.pairwise(chain)]
    assert set(canonical_names(links).values()) == {chain[-1]}
    cycle = canonical_names([*links, (chain[-1], chain[0], START + timedelta(hours=1))])
    assert set(cycle.values()) == {chain[-1]}


def test_of_mutual_symlinks_one_is_canonical() -> None:
    table, path, view = (content_id(name) for name in (b"table", b"path", b"view"))
    later = START + timedelta(hours=1)
    assert canonical_names([(table, path, START)]) == {table: path}
    assert canonical_names([(view, table, START), (table, path, later)]) == {
        view: path,
        table: path,
    }
    both = canonical_names([(table, path, START), (path, table, later)])
    assert set(both.values()) == {path}
    assert both == canonical_names([(path, table, later), (table, path, START)])


@pytest.mark.parametrize("text", [b'["]]]"]', b'{"a": "{{{{{{{{{{{{"}', b'["}{", {"[": "]["}]'])
def test_brackets_inside_strings_do_not_count_as_depth(text: bytes) -> None:
    assert parse_json(text, 3) is not None


def test_the_maximum_depth_is_allowed() -> None:
    assert parse_json(b'[{"a":' * 5 + b"1" + b"}]" * 5, 10) is not None
    with pytest.raises(BadEventError, match="deeper than 9"):
        parse_json(b'[{"a":' * 5 + b"1" + b"}]" * 5, 9)


def test_a_limited_key_reports_no_quality_of_datasets_of_others() -> None:
    tested = {**dataset("d"), "inputFacets": {"dataQualityAssertions": {"assertions": []}}}
    event = read_event(run_event(inputs=[tested]))
    for granted, described in (({"tests"}, False), ({"tests", "data"}, True)):
        rows = project([limit_event(event, frozenset(granted), frozenset())])
        assert [row.described for row in rows.run_datasets.values()] == [described]
