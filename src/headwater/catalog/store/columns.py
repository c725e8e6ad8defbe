"""Column lineage: the columns upstream and, on request, downstream of a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.store import datasets
from headwater.catalog.store.limits import response_bytes, truncated
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row
from headwater.catalog.store.walks import limited_walk

# The canonical id of the dataset, and the name of the column.
Column = tuple[UUID, str]

# A column under any name of its dataset.
_NAMES = """CROSS JOIN LATERAL (
    SELECT w.dataset_id UNION ALL
    SELECT a.id FROM datasets a WHERE a.canonical_id = w.dataset_id AND a.canonical_id <> a.id
) AS names(id)"""

# The column lineage of each job that writes the dataset, as of a time; of a version only its own.
_LATEST = """CASE WHEN s.dataset_id = ANY(%(versioned)s) THEN s.hash = ANY(%(hashes)s)
    ELSE s.first_seen <= %(at)s::timestamptz AND NOT EXISTS (
        SELECT FROM column_sets later
        WHERE later.dataset_id = s.dataset_id AND later.job_id = s.job_id
            AND later.first_seen <= %(at)s::timestamptz
            AND (least(later.last_seen, %(at)s::timestamptz), later.first_seen, later.hash)
                > (least(s.last_seen, %(at)s::timestamptz), s.first_seen, s.hash)) END"""
# `OFFSET 0` keeps the order of the joins: a column is looked up, not searched in its table.
_UP = f"""{_NAMES}
CROSS JOIN LATERAL (
    SELECT s.dataset_id, s.hash FROM column_sets s WHERE s.dataset_id = names.id AND {_LATEST}
    OFFSET 0
) AS s
CROSS JOIN LATERAL (
    SELECT * FROM column_edges WHERE dataset_id = s.dataset_id AND hash = s.hash
        AND md5(field) = md5(w.field) AND field = w.field
    OFFSET 0
) AS e
CROSS JOIN LATERAL (SELECT canonical_id FROM datasets WHERE id = e.input_id OFFSET 0) AS i"""
_DOWN = f"""{_NAMES}
CROSS JOIN LATERAL (
    SELECT * FROM column_edges WHERE input_id = names.id
        AND md5(input_field) = md5(w.field) AND input_field = w.field
    OFFSET 0
) AS e
CROSS JOIN LATERAL (
    SELECT canonical_id FROM datasets WHERE id = e.dataset_id AND EXISTS (
        SELECT FROM column_sets s
        WHERE s.dataset_id = e.dataset_id AND s.hash = e.hash AND {_LATEST})
    OFFSET 0
) AS o"""
_SOURCE = "i.canonical_id AS input_id, e.input_field"
_TARGET = "o.canonical_id AS dataset_id, e.field"

# The nearest columns first: each step of the recursion is one level.
_WALK = """
WITH RECURSIVE walk(dataset_id, field) AS (
    SELECT * FROM unnest(%(datasets)s::uuid[], %(fields)s::text[])
    UNION
    SELECT {found} FROM walk w {joins}
)
SELECT dataset_id, field FROM walk LIMIT %(limit)s
"""

# The edges of columns, as many as fit into a response.
_EDGES = """
SELECT * FROM (
    SELECT edges.*, sum(octet_length(transformations) + coalesce(octet_length(description), 0)
            + octet_length(field) + octet_length(input_field)) OVER (ORDER BY number) AS bytes,
        count(*) OVER () AS found
    FROM (
        SELECT w.number, {ends}, e.transformations, e.description, e.type
        FROM unnest(%(datasets)s::uuid[], %(fields)s::text[])
            WITH ORDINALITY AS w(dataset_id, field, number)
        {joins}
        LIMIT %(limit)s
    ) AS edges
) AS measured WHERE bytes <= %(bytes)s ORDER BY number
"""
_ENDS_UP = f"w.dataset_id, w.field, {_SOURCE}"
_ENDS_DOWN = f"{_TARGET}, w.dataset_id AS input_id, w.field AS input_field"
_STATEMENTS = {
    True: (
        _WALK.format(found=_SOURCE, joins=_UP),
        _EDGES.format(ends=_ENDS_UP, joins=_UP),
    ),
    False: (
        _WALK.format(found=_TARGET, joins=_DOWN),
        _EDGES.format(ends=_ENDS_DOWN, joins=_DOWN),
    ),
}

# Columns with lineage, under any name of the dataset.
_COLUMNS = """
WITH names(id) AS (
    SELECT %(dataset)s::uuid
    UNION ALL SELECT id FROM datasets WHERE canonical_id = %(dataset)s AND canonical_id <> id
)
SELECT e.field FROM names n JOIN column_edges e ON e.dataset_id = n.id
UNION SELECT e.input_field FROM names n JOIN column_edges e ON e.input_id = n.id
LIMIT 10000
"""

_VERSIONS = """
SELECT v.id, v.dataset_id, d.canonical_id, v.last_seen, f.body AS fields_text,
    (v.facets->'columnLineage'->>1)::uuid AS hash
FROM dataset_versions v
JOIN datasets d ON d.id = v.dataset_id
LEFT JOIN documents f ON f.dataset_id = v.dataset_id AND f.hash = v.fields
WHERE {versions}
"""
_ONE = "v.id = %(version)s"
_OF_JOB = """v.run_id = (SELECT id FROM runs WHERE job_id = %(job)s AND version = %(version)s
    ORDER BY seen_at DESC LIMIT 1)"""

_OUTPUTS_OF_JOB = """
SELECT DISTINCT d.canonical_id FROM edges e JOIN datasets d ON d.id = e.dataset_id
WHERE e.job_id = %s AND e.output
"""


@dataclass(frozen=True, slots=True)
class ColumnLimits:
    """Limits of a column graph."""

    depth: int
    max_edges: int
    seconds: float
    downstream: bool


@dataclass(frozen=True, slots=True)
class VersionsAsOf:
    """Versions of datasets whose own column lineage is shown, and that of others as of then."""

    at: datetime | None = None
    rows: Sequence[Row] = ()

    def values(self) -> Json:
        return {
            "at": self.at or "infinity",
            "versioned": [row["dataset_id"] for row in self.rows],
            "hashes": [row["hash"] for row in self.rows if row["hash"]],
        }

    def columns(self) -> set[Column]:
        return {
            (row["canonical_id"], field["name"])
            for row in self.rows
            for field in orjson.loads(row["fields_text"] or "[]")
        }


NOW = VersionsAsOf()


async def columns_of_dataset(connection: AsyncConnection[Any], row: Row) -> list[Column]:
    """The columns in the schema or in the column lineage of a dataset."""
    names = {field["name"] for field in orjson.loads(row["fields_text"] or "[]")}
    cursor = await connection.execute(_COLUMNS, {"dataset": row["id"]})
    names |= {name for (name,) in await cursor.fetchall()}
    return [(row["id"], name) for name in sorted(names)]


async def versions_as_of(
    connection: AsyncConnection[Any], version: UUID, job: UUID | None
) -> VersionsAsOf:
    """A dataset version, or the outputs of the last run of a job version."""
    statement = _VERSIONS.format(versions=_OF_JOB if job else _ONE)
    rows = await fetch(connection, statement, {"version": version, "job": job})
    return VersionsAsOf(max((row["last_seen"] for row in rows), default=None), rows)


async def columns_of_job(connection: AsyncConnection[Any], job: UUID) -> list[Column]:
    """The columns of the outputs of a job."""
    cursor = await connection.execute(_OUTPUTS_OF_JOB, (job,))
    rows = await datasets.by_ids(connection, [key for (key,) in await cursor.fetchall()])
    return [column for row in rows for column in await columns_of_dataset(connection, row)]


async def column_graph(
    connection: AsyncConnection[Any],
    start: Collection[Column],
    limits: ColumnLimits,
    versions: VersionsAsOf = NOW,
) -> Json:
    """The graph around columns. As in Marquez, an edge leads from a column to its input."""
    edges: dict[tuple[Column, Column], Row] = {}
    cut = await _follow(connection, start, limits, versions, edges, up=True)
    if limits.downstream:
        cut |= await _follow(connection, start, limits, versions, edges, up=False)
    columns = sorted({column for pair in edges for column in pair})
    rows = {r["id"]: r for r in await datasets.by_ids(connection, [c[0] for c in columns])}
    for each in versions.rows:
        if each["canonical_id"] in rows:
            rows[each["canonical_id"]]["current_version"] = each["id"]
    shown = [column for column in columns if column[0] in rows]
    nodes = _nodes(shown, edges, rows)
    return {"graph": nodes, **truncated(cut)}


async def _follow(
    connection: AsyncConnection[Any],
    start: Collection[Column],
    limits: ColumnLimits,
    versions: VersionsAsOf,
    edges: dict[tuple[Column, Column], Row],
    *,
    up: bool,
) -> bool:
    """Adds the edges of up to `depth` levels; returns whether a limit was reached."""
    walk, edges_of = _STATEMENTS[up]
    limit = {"limit": limits.max_edges + 1}
    of = {**limit, **versions.values()}
    walked = await limited_walk(connection, walk, {**_arrays(start), **of}, limits.seconds)
    reached = [(row["dataset_id"], row["field"]) for row in walked or []]
    size = {"bytes": response_bytes(connection)}
    values = {**_arrays(reached[: limits.max_edges]), **of, **size}
    rows = await limited_walk(connection, edges_of, values, limits.seconds)
    by_column: dict[Column, list[tuple[Column, Row]]] = defaultdict(list)
    for row in (rows or [])[: limits.max_edges]:
        target, source = (row["dataset_id"], row["field"]), (row["input_id"], row["input_field"])
        near, far = (target, source) if up else (source, target)
        by_column[near].append((far, {**row, "edge": (target, source)}))
    level = set(start)
    seen = set(start)
    for _ in range(min(limits.depth, len(reached))):
        following = {far for column in level for far, _ in by_column[column]}
        edges.update({row["edge"]: row for column in level for _, row in by_column[column]})
        level = following - seen
        seen |= level
    if walked is None or rows is None:
        return True
    # The nearest come first: if one beyond the depth is among them, none before it is missing.
    walk_cut = len(reached) > limits.max_edges and seen >= set(reached[: limits.max_edges])
    if not rows:
        return walk_cut or len(reached) > len(seen)
    last = (rows[-1]["dataset_id"], rows[-1]["field"])
    if not up:
        last = (rows[-1]["input_id"], rows[-1]["input_field"])
    edges_cut = rows[-1]["found"] > min(len(rows), limits.max_edges) and last in seen
    return walk_cut or edges_cut


def _arrays(columns: Collection[Column]) -> dict[str, list[Any]]:
    return {"datasets": [key for key, _ in columns], "fields": [field for _, field in columns]}


def _nodes(
    columns: list[Column], edges: dict[tuple[Column, Column], Row], rows: dict[UUID, Row]
) -> list[Json]:
    names = {(key, field): _node_id(rows[key], field) for key, field in columns}
    inputs: dict[Column, list[tuple[Column, Row]]] = defaultdict(list)
    into: dict[Column, list[Json]] = defaultdict(list)
    out: dict[Column, list[Json]] = defaultdict(list)
    for (target, source), row in sorted(edges.items(), key=lambda item: item[0]):
        if target not in names or source not in names:
            continue
        inputs[target].append((source, row))
        into[target].append({"origin": names[target], "destination": names[source]})
        out[source].append({"origin": names[source], "destination": names[target]})
    types = {
        (key, field["name"]): field["type"]
        for key, row in rows.items()
        for field in orjson.loads(row["fields_text"] or "[]")
    }
    return [
        {
            "id": names[column],
            "type": "DATASET_FIELD",
            "data": {
                **_column_json(column, rows),
                "fieldType": types.get(column) or "",
                **_transformation_json(inputs[column][0][1] if inputs[column] else None),
                "inputFields": [_input_json(source, row, rows) for source, row in inputs[column]],
            },
            "inEdges": into[column],
            "outEdges": out[column],
        }
        for column in sorted(columns, key=lambda column: names[column])
    ]


def _node_id(row: Row, field: str) -> str:
    return f"datasetField:{row['namespace']}:{row['name']}:{field}"


def _column_json(column: Column, rows: dict[UUID, Row]) -> Json:
    row = rows[column[0]]
    return {
        "namespace": row["namespace"],
        "dataset": row["name"],
        "datasetVersion": datasets.current_version(row),
        "field": column[1],
    }


def _transformation_json(edge: Row | None) -> Json:
    if edge is None:
        return {"transformationDescription": None, "transformationType": None}
    return {
        "transformationDescription": edge["description"],
        "transformationType": edge["type"] or _subtype(orjson.loads(edge["transformations"])),
    }


def _subtype(transformations: Any) -> str | None:
    """Newer events have a list of transformations: the type of the first direct one."""
    listed = [each for each in transformations if isinstance(each, dict)]
    listed.sort(key=lambda each: each.get("type") != "DIRECT")
    kind = (listed[0].get("subtype") or listed[0].get("type")) if listed else None
    return kind if isinstance(kind, str) else None


def _input_json(source: Column, row: Row, rows: dict[UUID, Row]) -> Json:
    return {
        **_column_json(source, rows),
        **_transformation_json(row),
        "transformations": orjson.Fragment(row["transformations"]),
    }
