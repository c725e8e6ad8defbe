"""The final state does not depend on the order of events, nor on which share a transaction."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from tests.catalog_support import PRODUCER, SPEC, dataset, fresh_database, run_event, run_id

from headwater.catalog.ingest import read_event
from headwater.catalog.store import migrate
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.writer import Writer

Events = list[dict[str, Any]]
# Every table that events write.
TABLES = (
    "namespaces",
    "sources",
    "events",
    "datasets",
    "symlinks",
    "documents",
    "dataset_versions",
    "jobs",
    "runs",
    "run_datasets",
    "edges",
    "column_sets",
    "column_edges",
    "record_ranges",
)
# Columns that depend on the time of arrival.
ARRIVAL = {"received_at", "sent_at", "facets_from", "job_facets_from", "own_facets_from"}
ORDERS = 6


def at(minute: int) -> str:
    return f"2026-01-01T10:{minute:02}:00Z"


def symlinks(*names: str) -> dict[str, Any]:
    return {"identifiers": [{"namespace": "hive", "name": n, "type": "TABLE"} for n in names]}


def parent(run: str, job: str) -> dict[str, Any]:
    return {"parent": {"run": {"runId": run_id(run)}, "job": {"namespace": "tests", "name": job}}}


def offsets(first: int, last: int, version: str | None = None) -> dict[str, Any]:
    partition = {"namespace": "kafka://k", "topic": "t", "partition": 0}
    facet = {"batch": 1, "outputs": [{**partition, "first": first, "last": last}]}
    return {"headwater_offsets": {**facet, **({"jobVersion": version} if version else {})}}


def columns(source: str) -> dict[str, Any]:
    return {"fields": {"x": {"inputFields": [{"namespace": "data", "name": source, "field": "a"}]}}}


A_RUN = [
    run_event("START", at=at(0), inputs=["a"], run_facets={"f": {"n": 1}}),
    run_event(
        "RUNNING", at=at(1), outputs=[dataset("b", fields=["x"])], run_facets={"f": {"n": 2}}
    ),
    run_event("RUNNING", at=at(1), run_facets={"f": {"n": 3}, "g": {}}),
    run_event("COMPLETE", at=at(2), inputs=["a", "c"]),
    run_event("COMPLETE", run=run_id("other"), at=at(0), outputs=[dataset("b", fields=["x", "y"])]),
]
ENDS_AT_ONCE = [
    run_event("FAIL", at=at(3), outputs=[dataset("b", fields=["failed"])]),
    run_event("COMPLETE", at=at(3), outputs=[dataset("b", fields=["done"])]),
    run_event("OTHER", at=at(4)),
]
# The symlinks of a dataset arrive after runs have used them.
SYMLINKS = [
    run_event(job="by path", at=at(0), outputs=[dataset("/b", fields=["x"])]),
    run_event(job="by table", at=at(1), inputs=[{"namespace": "hive", "name": "b"}]),
    run_event(job="by view", at=at(2), outputs=[{"namespace": "hive", "name": "v"}]),
    run_event(job="links", at=at(3), outputs=[dataset("/b", symlinks=symlinks("b"))]),
    run_event(job="links more", at=at(4), outputs=[dataset("/b", symlinks=symlinks("v", "b"))]),
    run_event(job="disagrees", at=at(5), outputs=[dataset("/c", symlinks=symlinks("b"))]),
]
# A child names the run of its parent, with an earlier time and another job than the run itself.
PARENT_FACETS = [
    run_event(job="child", at=at(0), run_facets=parent("the parent", "wrong")),
    run_event(job="sister", at=at(1), run_facets=parent("the parent", "also wrong")),
    run_event("START", job="right", run=run_id("the parent"), at=at(2)),
    run_event("COMPLETE", job="late", run=run_id("the parent"), at=at(3)),
]
# At the same time the greater text is kept, independent of the collation of the database.
TIES = [
    run_event(outputs=[dataset("d", dataSource={"name": name, "uri": f"{name}://x"})])
    for name in ("a", "B", "ä", "_")
] + [
    run_event(job_facets={"sourceCodeLocation": {"url": "https://a"}}, at=at(0)),
    run_event(job_facets={"sourceCodeLocation": {"type": "git"}}, at=at(1)),
]
RANGES = [
    run_event("RUNNING", at=at(0), run_facets=offsets(0, 5, "v1")),
    run_event("RUNNING", at=at(1), run_facets=offsets(0, 9, "v2")),
    run_event("COMPLETE", at=at(2), run_facets=offsets(0, 9)),
]
# A stream names an output in each event, and writes to it in some.
STREAM = {"jobType": {"processingType": "STREAMING", "integration": "SPARK"}}
WRITES = [
    run_event(
        kind,
        at=at(minute),
        outputs=["out", "dead"],
        job_facets=STREAM,
        run_facets={"headwater_progress": {"rowsIn": 1, "outputsWritten": written}},
    )
    for minute, (kind, written) in enumerate(
        [
            ("START", []),
            ("RUNNING", [{"namespace": "data", "name": "out"}]),
            ("RUNNING", [{"namespace": "data", "name": "dead"}]),
            ("COMPLETE", []),
        ]
    )
]
MENTIONED = [
    run_event(job="w", at=at(3), outputs=[dataset("o", columnLineage=columns("only here"))]),
    run_event(job="w", at=at(1), outputs=[dataset("o", columnLineage=columns("only here"))]),
    run_event(job="u", at=at(2), outputs=[dataset("o", columnLineage=columns("and here"))]),
    {
        "eventTime": at(5),
        "dataset": dataset("o", fields=["x"]),
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}DatasetEvent",
    },
    {
        "eventTime": at(6),
        "job": {"namespace": "tests", "name": "w", "facets": {"documentation": {}}},
        "inputs": [dataset("i", fields=["x"])],
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}JobEvent",
    },
]
# Readers with other columns, before and after the dataset is described and written.
READERS = [
    run_event(job="early", at=at(0), inputs=[dataset("r", fields=["seen"], storage={"n": 1})]),
    run_event(job="writer", at=at(1), outputs=[dataset("r", fields=["written"])]),
    run_event(job="late", at=at(3), inputs=[dataset("r", fields=["seen"], storage={"n": 2})]),
    run_event(job="plain", at=at(4), inputs=["r", "only read"]),
    run_event(job="both", at=at(5), inputs=["r"], outputs=[dataset("r", fields=["written"])]),
    {
        "eventTime": at(2),
        "dataset": dataset("r", fields=["seen"]),
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}DatasetEvent",
    },
]
# Ends that contradict each other, with the datasets that the runs wrote.
SEVERAL_ENDS = [
    run_event("COMPLETE", job="first", at=at(0), outputs=[dataset("e", fields=["kept"])]),
    run_event("COMPLETE", run=run_id("e"), at=at(3), outputs=[dataset("e", fields=["never"])]),
    run_event("FAIL", run=run_id("e"), at=at(2)),
    run_event("ABORT", run=run_id("e"), at=at(5)),
    run_event("COMPLETE", run=run_id("f"), at=at(4), outputs=[dataset("e", fields=["aborted"])]),
    run_event("ABORT", run=run_id("f"), at=at(1)),
    run_event("RUNNING", run=run_id("f"), at=at(6)),
]
# Runs that end with their parent, or the parent of it; one of them goes on.
CLOSED = [
    run_event("START", job="app", run=run_id("app"), at=at(0)),
    run_event("COMPLETE", job="app", run=run_id("app"), at=at(5)),
    run_event("START", job="rdd", at=at(1), run_facets=parent("app", "app")),
    run_event("START", job="sql", run=run_id("sql"), at=at(2), run_facets=parent("app", "app")),
    run_event("START", job="stage", at=at(3), run_facets=parent("sql", "sql")),
    run_event("RUNNING", job="on", run=run_id("on"), at=at(6), run_facets=parent("app", "app")),
    run_event("START", job="step", at=at(1), run_facets=parent("on", "on")),
    run_event("FAIL", job="own", at=at(2), run_facets=parent("sql", "sql")),
    {**run_event(job="untyped", at=at(2), run_facets=parent("app", "app")), "eventType": None},
]
CASES = {
    "readers": READERS,
    "several ends": SEVERAL_ENDS,
    "closed": CLOSED,
    "a run": A_RUN,
    "ends at once": ENDS_AT_ONCE,
    "symlinks": SYMLINKS,
    "parent facets": PARENT_FACETS,
    "ties": TIES,
    "ranges": RANGES,
    "mentioned": MENTIONED,
    "writes of a stream": WRITES,
}


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    url = fresh_database(postgres)
    migrate(url)
    return url


async def _store(database: str, groups: Sequence[Events]) -> None:
    pool = Pool(database, size=2, wait_seconds=5, query_seconds=30)
    await pool.open()
    writer = Writer(pool, max_waiting=1000)
    writer.start()
    for group in groups:
        await writer.store([(read_event(event), json.dumps(event)) for event in group])
    await writer.close()
    await pool.close()


def final_state(database: str, groups: Sequence[Events]) -> dict[str, list[Any]]:
    """All rows of all tables after each group was stored in one transaction."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("; ".join(f"DELETE FROM {table}" for table in TABLES).encode())  # noqa: S608
        asyncio.run(_store(database, groups))
        state: dict[str, list[Any]] = {}
        for table in TABLES:
            rows = connection.execute(f"SELECT to_jsonb(t) FROM {table} t".encode())  # noqa: S608
            kept = [
                {k: v for k, v in row.items() if k not in ARRIVAL} for (row,) in rows.fetchall()
            ]
            state[table] = sorted(json.dumps(row, sort_keys=True) for row in kept)
    return state


@pytest.mark.parametrize("case", CASES)
def test_the_final_state_does_not_depend_on_the_order_of_arrival(database: str, case: str) -> None:
    events = CASES[case]
    expected = final_state(database, [events])
    # In order and in reverse, one by one; then in random order, in two transactions.
    orders: list[Sequence[Events]] = [[[e] for e in events], [[e] for e in reversed(events)]]
    for seed in range(ORDERS):
        rng = random.Random(seed)  # noqa: S311
        shuffled = rng.sample(events, len(events))
        cut = rng.randrange(len(events))
        orders.append([shuffled[:cut], shuffled[cut:]])
    for order in orders:
        state = final_state(database, [group for group in order if group])
        for table in TABLES:
            assert state[table] == expected[table], f"{table}, sent as {json.dumps(order)}"
