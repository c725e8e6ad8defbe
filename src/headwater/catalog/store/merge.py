"""Writes a projection: one statement for each table, in one transaction of the caller's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.identity import job_version_id
from headwater.catalog.ingest import Projection
from headwater.catalog.ingest.symlink_groups import canonical_names
from headwater.catalog.store import statements, table_rows
from headwater.catalog.store.values import Row
from headwater.catalog.store.write_cache import Stored


async def merge(connection: AsyncConnection[Any], rows: Projection, stored: Stored) -> None:
    """Merge all rows; texts and column edges that are known to be stored are not sent again."""
    texts = {key: body for key, body in rows.documents.items() if key not in stored.documents}
    runs = sorted(rows.runs)
    named: Any = None
    async with connection.pipeline():
        for statement, written in (
            (statements.NAMESPACES, table_rows.namespaces(rows)),
            (statements.SOURCES, table_rows.sources(rows)),
            (statements.DATASETS, table_rows.datasets(rows)),
            (statements.DOCUMENTS, table_rows.documents(texts)),
            (statements.JOBS, table_rows.jobs(rows)),
            (statements.RUNS, table_rows.runs(rows)),
            (statements.VERSIONS, table_rows.versions(rows)),
            (statements.RUN_DATASETS, table_rows.run_datasets(rows)),
            (statements.EDGES, table_rows.edges(rows)),
            (statements.COLUMN_SETS, table_rows.column_sets(rows)),
            (statements.COLUMN_EDGES, table_rows.column_edges(rows)),
            (statements.RANGES, table_rows.ranges(rows)),
            (statements.PROGRESS, table_rows.progress(rows)),
        ):
            if written:
                await connection.execute(statement, (_json(written),))
        if rows.symlinks:
            links = _json(table_rows.symlinks(rows))
            named = await connection.execute(statements.SYMLINKS, (links,))
        if rows.versions or runs:
            current = {"versions": sorted(rows.versions), "runs": runs}
            await connection.execute(statements.CURRENT_VERSIONS, current)
            await connection.execute(statements.CURRENT_FIELDS, current)
        await connection.execute(statements.REVIVED, (sorted(rows.datasets),))
        shapes = await connection.execute(statements.RUN_SHAPES, (runs,))
    found = await shapes.fetchall()
    moved = await _name_canonical(connection, await named.fetchall()) if named else []
    if moved:
        touched = await connection.execute(statements.RUNS_TOUCHING, (moved,))
        runs = sorted({*runs, *(run for (run,) in await touched.fetchall())})
        found = await (await connection.execute(statements.RUN_SHAPES, (runs,))).fetchall()
    await _version_runs(connection, found)


async def _name_canonical(
    connection: AsyncConnection[Any], linked: list[tuple[UUID, UUID]]
) -> list[UUID]:
    """Names that lead to another dataset than before; `linked` are the names that were told."""
    if not linked:
        return []
    ends = [key for pair in linked for key in pair]
    family = await connection.execute(statements.SYMLINK_FAMILY, (ends,))
    links = [(alias, dataset, at) for alias, dataset, at in await family.fetchall()]
    # What is nobody's alias stands for itself again.
    rows = {dataset: dataset for _, dataset, _ in links} | canonical_names(links)
    wanted = [{"id": key, "canonical_id": rows[key]} for key in sorted(rows)]
    changed = await connection.execute(statements.CANONICAL, (_json(wanted),))
    return [key for (key,) in await changed.fetchall()]


async def _version_runs(connection: AsyncConnection[Any], shapes: list[Any]) -> None:
    changed: list[Row] = []
    for run, namespace, name, version, location, code, datasets in shapes:
        place = _location(code)
        inputs = {(ns, ds) for output, ns, ds in datasets if not output}
        outputs = {(ns, ds) for output, ns, ds in datasets if output}
        found = job_version_id(namespace, name, inputs, outputs, place)
        if (found, place) != (version, location):
            changed.append({"id": run, "version": found, "location": place})
    if changed:
        changed.sort(key=lambda row: row["id"])
        await connection.execute(statements.RUN_VERSIONS, (_json(changed),))


def _location(code: str | None) -> str | None:
    if code is None:
        return None
    facet = orjson.loads(code)
    url = facet.get("url") if isinstance(facet, dict) else None
    return url if isinstance(url, str) and "\0" not in url else None


def _json(rows: Any) -> str:
    return orjson.dumps(rows).decode()
