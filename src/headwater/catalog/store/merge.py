"""Writes a projection: one statement per table, in the transaction of the caller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.identity import job_version_id
from headwater.catalog.ingest import Projection
from headwater.catalog.store import derived, statements, table_rows
from headwater.catalog.store.symlinks import canonical_names
from headwater.catalog.store.values import Row
from headwater.catalog.store.write_cache import WriteCache


async def merge(connection: AsyncConnection[Any], rows: Projection, cache: WriteCache) -> None:
    """Merge all rows. Texts and column edges in the cache are not sent again."""
    texts = {key: body for key, body in rows.documents.items() if key not in cache.documents}
    runs = sorted(rows.runs)
    # Without runs that only the parent facets of others mention: nothing depends on these.
    active = [run for run in runs if rows.runs[run].last_event_at is not None]
    linked: Any = None
    async with connection.pipeline():
        for statement, written in (
            (statements.NAMESPACES, table_rows.namespaces(rows)),
            (statements.SOURCES, table_rows.sources(rows)),
            (statements.SOURCE_NAMES, table_rows.source_names(rows)),
            (statements.DATASETS, table_rows.datasets(rows)),
            (statements.REFERENCES, table_rows.references(rows)),
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
            linked = await connection.execute(statements.SYMLINKS, (links,))
        if active:
            await connection.execute(derived.CLOSED_RUNS, {"runs": active})
        if rows.versions or runs:
            current = {"versions": sorted(rows.versions), "runs": runs}
            await connection.execute(derived.CURRENT_VERSIONS, current)
            await connection.execute(derived.CURRENT_FIELDS, current)
            await connection.execute(derived.LAST_WRITES, current)
        await connection.execute(statements.REVIVED, (sorted(rows.datasets),))
        shapes = await connection.execute(derived.RUN_SHAPES, (runs,))
    shape_rows = await shapes.fetchall()
    failed = [run for run in runs if rows.runs[run].end_state in ("ABORTED", "FAILED")]
    if failed:
        await _recount(connection, failed)
    changed = await _update_canonical(connection, await linked.fetchall()) if linked else []
    if changed:
        affected = await connection.execute(statements.RUNS_OF_DATASETS, (changed,))
        runs = sorted({*runs, *(run for (run,) in await affected.fetchall())})
        shape_rows = await (await connection.execute(derived.RUN_SHAPES, (runs,))).fetchall()
    await _update_versions(connection, shape_rows)


async def _recount(connection: AsyncConnection[Any], failed: list[UUID]) -> None:
    """Find the current versions again of datasets whose version no longer counts."""
    found = await connection.execute(derived.UNCOUNTED, (failed,))
    datasets = [key for (key,) in await found.fetchall()]
    if datasets:
        await connection.execute(derived.RECOUNTED, (datasets,))


async def _update_canonical(
    connection: AsyncConnection[Any], linked: list[tuple[UUID, UUID]]
) -> list[UUID]:
    """Update the canonical names after new links; returns the datasets whose name changed."""
    if not linked:
        return []
    ends = [key for pair in linked for key in pair]
    family = await connection.execute(statements.SYMLINK_FAMILY, (ends,))
    links = [(alias, dataset, at) for alias, dataset, at in await family.fetchall()]
    # A dataset that is not an alias is canonical.
    canonical = {dataset: dataset for _, dataset, _ in links} | canonical_names(links)
    rows = [{"id": key, "canonical_id": canonical[key]} for key in sorted(canonical)]
    changed = await connection.execute(statements.CANONICAL, (_json(rows),))
    return [key for (key,) in await changed.fetchall()]


async def _update_versions(connection: AsyncConnection[Any], shapes: list[Any]) -> None:
    changed: list[Row] = []
    for run, namespace, name, version, location, code, datasets in shapes:
        new_location = _location(code)
        inputs = {(ns, ds) for output, ns, ds in datasets if not output}
        outputs = {(ns, ds) for output, ns, ds in datasets if output}
        new_version = job_version_id(namespace, name, inputs, outputs, new_location)
        if (new_version, new_location) != (version, location):
            changed.append({"id": run, "version": new_version, "location": new_location})
    if changed:
        changed.sort(key=lambda row: row["id"])
        await connection.execute(derived.RUN_VERSIONS, (_json(changed),))


def _location(code: str | None) -> str | None:
    if code is None:
        return None
    facet = orjson.loads(code)
    url = facet.get("url") if isinstance(facet, dict) else None
    return url if isinstance(url, str) and "\0" not in url else None


def _json(rows: Any) -> str:
    return orjson.dumps(rows).decode()
