"""Column lineage: the columns upstream and, on request, downstream of a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.store import datasets
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row

# The canonical id of the dataset, and the name of the column.
Column = tuple[UUID, str]

# The latest column lineage of each job that writes the dataset.
_EDGES = """
SELECT o.canonical_id AS dataset_id, e.field, i.canonical_id AS input_id, e.input_field,
    e.transformations, e.description, e.type
FROM column_edges e
JOIN datasets o ON o.id = e.dataset_id JOIN datasets i ON i.id = e.input_id
WHERE {side} = ANY(%(datasets)s) AND EXISTS (
    SELECT FROM column_sets s WHERE s.dataset_id = e.dataset_id AND s.hash = e.hash
    AND NOT EXISTS (
        SELECT FROM column_sets later WHERE later.dataset_id = s.dataset_id
        AND later.job_id = s.job_id AND (later.last_seen, later.hash) > (s.last_seen, s.hash)))
LIMIT 200000
"""
_UP = _EDGES.format(side="o.canonical_id")
_DOWN = _EDGES.format(side="i.canonical_id")

# Columns with lineage, under any name of the dataset.
_COLUMNS = """
WITH names(id) AS (
    SELECT %(dataset)s::uuid
    UNION ALL SELECT id FROM datasets WHERE canonical_id = %(dataset)s AND canonical_id <> id
)
SELECT e.field FROM names n JOIN column_edges e ON e.dataset_id = n.id
UNION SELECT e.input_field FROM names n JOIN column_edges e ON e.input_id = n.id
"""

_FIELDS_OF_VERSION = """
SELECT d.canonical_id, f.body FROM dataset_versions v
JOIN datasets d ON d.id = v.dataset_id
JOIN documents f ON f.dataset_id = v.dataset_id AND f.hash = v.fields
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
    downstream: bool


async def columns_of_dataset(connection: AsyncConnection[Any], row: Row) -> list[Column]:
    """The columns in the schema or in the column lineage of a dataset."""
    names = {field["name"] for field in orjson.loads(row["fields_text"] or "[]")}
    cursor = await connection.execute(_COLUMNS, {"dataset": row["id"]})
    names |= {name for (name,) in await cursor.fetchall()}
    return [(row["id"], name) for name in sorted(names)]


async def columns_of_version(
    connection: AsyncConnection[Any], version: UUID, job: UUID | None
) -> set[Column]:
    """The columns of a dataset version, or of the outputs of the last run of a job version."""
    statement = _FIELDS_OF_VERSION.format(versions=_OF_JOB if job else _ONE)
    cursor = await connection.execute(statement, {"version": version, "job": job})
    return {
        (dataset, field["name"])
        for dataset, text in await cursor.fetchall()
        for field in orjson.loads(text)
    }


async def columns_of_job(connection: AsyncConnection[Any], job: UUID) -> list[Column]:
    """The columns of the outputs of a job."""
    cursor = await connection.execute(_OUTPUTS_OF_JOB, (job,))
    rows = await datasets.by_ids(connection, [key for (key,) in await cursor.fetchall()])
    return [column for row in rows for column in await columns_of_dataset(connection, row)]


async def column_graph(
    connection: AsyncConnection[Any], start: Collection[Column], limits: ColumnLimits
) -> Json:
    """The graph around columns. As in Marquez, an edge leads from a column to its input."""
    edges: dict[tuple[Column, Column], Row] = {}
    truncated = await _follow(connection, start, limits, _UP, edges)
    if limits.downstream:
        truncated |= await _follow(connection, start, limits, _DOWN, edges)
    columns = sorted({column for pair in edges for column in pair})
    rows = {r["id"]: r for r in await datasets.by_ids(connection, [c[0] for c in columns])}
    shown = [column for column in columns if column[0] in rows]
    nodes = _nodes(shown, edges, rows)
    return {"graph": nodes, **({"truncated": True} if truncated else {})}


async def _follow(
    connection: AsyncConnection[Any],
    start: Collection[Column],
    limits: ColumnLimits,
    statement: str,
    edges: dict[tuple[Column, Column], Row],
) -> bool:
    """Adds the edges of up to `depth` levels; returns whether the limit was reached."""
    seen = set(start)
    level = set(start)
    up = statement is _UP
    for _ in range(limits.depth):
        if not level:
            return False
        following: set[Column] = set()
        names = {"datasets": sorted({dataset for dataset, _ in level})}
        for row in await fetch(connection, statement, names):
            target = (row["dataset_id"], row["field"])
            source = (row["input_id"], row["input_field"])
            if (target if up else source) not in level:
                continue
            edges[target, source] = row
            following.add(source if up else target)
            if len(edges) >= limits.max_edges:
                return True
        level = following - seen
        seen |= level
    return False


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
    version = row["current_version"]
    return {
        "namespace": row["namespace"],
        "dataset": row["name"],
        "datasetVersion": str(version) if version else None,
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
