"""Writes a projection: one statement for each table, in one transaction of the caller's."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.graph.aliases import canonical_names
from headwater.catalog.identity import dataset_id, job_version_id, namespace_id, source_id
from headwater.catalog.ingest import Projection
from headwater.catalog.ingest.facets import FacetMap
from headwater.catalog.ingest.rows import Span
from headwater.catalog.store import statements
from headwater.catalog.store.stored import Stored

Row = dict[str, Any]
# Later than any moment: nothing was said, so nothing can be late.
_NEVER = 2**62
_SCHEMES = {"postgres": "POSTGRESQL", "postgresql": "POSTGRESQL"}


async def merge(connection: AsyncConnection[Any], rows: Projection, stored: Stored) -> None:
    """Merge all rows; texts and column edges that are known to be stored are not sent again."""
    documents = {key: body for key, body in rows.documents.items() if key not in stored.documents}
    named: Any = None
    async with connection.pipeline():
        for statement, table_rows in (
            (statements.NAMESPACES, _namespaces(rows)),
            (statements.SOURCES, _sources(rows)),
            (statements.DATASETS, _datasets(rows)),
            (statements.DOCUMENTS, _documents(documents)),
            (statements.JOBS, _jobs(rows)),
            (statements.RUNS, _runs(rows)),
            (statements.VERSIONS, _versions(rows)),
            (statements.RUN_DATASETS, _run_datasets(rows)),
            (statements.EDGES, _edges(rows)),
            (statements.COLUMN_SETS, _column_sets(rows)),
            (statements.COLUMN_EDGES, _column_edges(rows.column_edges)),
            (statements.RANGES, _ranges(rows)),
        ):
            if table_rows:
                await connection.execute(statement, (_json(table_rows),))
        if rows.symlinks:
            named = await connection.execute(statements.SYMLINKS, (_json(_symlinks(rows)),))
        current = {"versions": sorted(rows.versions), "runs": sorted(rows.runs)}
        if rows.versions or rows.runs:
            await connection.execute(statements.CURRENT_VERSIONS, current)
            await connection.execute(statements.CURRENT_FIELDS, current)
        shapes = await connection.execute(statements.RUN_SHAPES, (sorted(rows.runs),))
    if named is not None:
        await _name_canonical(connection, [key for pair in await named.fetchall() for key in pair])
    await _version_runs(connection, await shapes.fetchall())


async def _name_canonical(connection: AsyncConnection[Any], changed: list[UUID]) -> None:
    if not changed:
        return
    family = await connection.execute(statements.SYMLINK_FAMILY, (changed,))
    links = [(alias, dataset, at) for alias, dataset, at in await family.fetchall()]
    found = canonical_names(links)
    # What is nobody's alias stands for itself again.
    rows = {dataset: dataset for _, dataset, _ in links} | found
    wanted = [{"id": key, "canonical_id": rows[key]} for key in sorted(rows)]
    await connection.execute(statements.CANONICAL, (_json(wanted),))


async def _version_runs(connection: AsyncConnection[Any], shapes: list[Any]) -> None:
    changed: list[Row] = []
    for run, namespace, name, version, location, code, datasets in shapes:
        place = _location(code) or location
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


def _facets(facets: FacetMap, prefix: str = "") -> Row:
    moments = [moment for moment, _ in facets.values()]
    return {
        f"{prefix}facets": facets,
        f"{prefix}facets_from": min(moments, default=_NEVER),
        f"{prefix}facets_at": max(moments, default=0),
    }


def _span(span: Span) -> Row:
    return {"first": span.first, "last": span.last}


def _namespaces(rows: Projection) -> list[Row]:
    found: list[Row] = [
        {"id": namespace_id(name), "name": name, "at": at} for name, at in rows.namespaces.items()
    ]
    return sorted(found, key=lambda row: row["id"])


def _sources(rows: Projection) -> list[Row]:
    found = [
        {
            "id": source_id(row.name),
            "name": row.name,
            "type": source_type(row.url or row.name),
            "connection_url": row.url,
            "url_at": row.url_at,
            **_span(row.seen),
        }
        for row in rows.sources.values()
    ]
    return sorted(found, key=lambda row: row["id"])


def source_type(url: str) -> str:
    """`s3://lake` is of type S3."""
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme.isalnum():
        return "OTHER"
    return _SCHEMES.get(scheme.lower(), scheme.upper())


def _datasets(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            "namespace_id": namespace_id(row.namespace),
            "namespace": row.namespace,
            "name": row.name,
            "source": row.source,
            "source_at": row.source_at,
            **_span(row.seen),
            **_facets(row.facets),
        }
        for key, row in sorted(rows.datasets.items(), key=_key)
    ]


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def _symlinks(rows: Projection) -> list[Row]:
    return [
        {"alias_id": alias, "dataset_id": dataset, "at": at}
        for (alias, dataset), at in sorted(rows.symlinks.items())
    ]


def _documents(documents: dict[tuple[UUID, UUID], str]) -> list[Row]:
    return [
        {"dataset_id": dataset, "hash": digest, "body": body}
        for (dataset, digest), body in sorted(documents.items(), key=_key)
    ]


def _versions(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            "dataset_id": row.dataset_id,
            "run_id": row.run_id,
            "fields": row.fields,
            "lifecycle": row.lifecycle,
            **_span(row.seen),
            **_facets(row.facets),
        }
        for key, row in sorted(rows.versions.items(), key=_key)
    ]


def _jobs(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            "namespace_id": namespace_id(row.namespace),
            "namespace": row.namespace,
            "name": row.name,
            "parent_id": row.parent_id,
            "parent_at": row.parent_at,
            **_span(row.seen),
            **_facets(row.facets),
            **_facets(row.own_facets, "own_"),
        }
        for key, row in sorted(rows.jobs.items(), key=_key)
    ]


def _runs(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            "job_id": row.job_id,
            "job_at": row.job_at,
            "seen_at": row.seen_at,
            "last_event_at": row.last_event_at,
            "started_at": row.started_at,
            "running_at": row.running_at,
            "ended_at": row.ended_at,
            "end_state": row.end_state,
            "completed": row.completed,
            "streaming": row.streaming,
            "parent_run_id": row.parent_run_id,
            **_facets(row.facets),
            **_facets(row.job_facets, "job_"),
        }
        for key, row in sorted(rows.runs.items(), key=_key)
    ]


def _run_datasets(rows: Projection) -> list[Row]:
    return [
        {
            "run_id": run,
            "dataset_id": dataset,
            "output": output,
            "at": row.at,
            "version_id": row.version_id,
            "version_at": row.version_at,
            **_facets(row.facets),
        }
        for (run, dataset, output), row in sorted(rows.run_datasets.items(), key=_key)
    ]


def _edges(rows: Projection) -> list[Row]:
    return [
        {"job_id": job, "dataset_id": dataset, "output": output, **_span(span)}
        for (job, dataset, output), span in sorted(rows.edges.items(), key=_key)
    ]


def _column_sets(rows: Projection) -> list[Row]:
    return [
        {"dataset_id": dataset, "job_id": job, "hash": digest, **_span(span)}
        for (dataset, job, digest), span in sorted(rows.column_sets.items(), key=_key)
    ]


def _column_edges(edges: dict[tuple[UUID, UUID], list[Any]]) -> list[Row]:
    return [
        {
            "dataset_id": dataset,
            "hash": digest,
            "field": edge.field,
            "input_id": edge.input_id,
            "input_field": edge.input_field,
            "transformations": edge.transformations,
            "description": edge.description,
            "type": edge.type,
        }
        for (dataset, digest), listed in sorted(edges.items(), key=_key)
        for edge in sorted(listed, key=lambda e: (e.field, e.input_id, e.input_field))
    ]


def _ranges(rows: Projection) -> list[Row]:
    found: dict[tuple[Any, ...], Row] = {}
    items: Iterable[tuple[tuple[UUID, Any], datetime]] = rows.ranges.items()
    for (run, each), at in items:
        key = (
            run,
            each.batch,
            each.output,
            dataset_id(each.namespace, each.topic),
            each.partition,
            each.first,
        )
        row = {
            **dict(
                zip(
                    ("run_id", "batch", "output", "dataset_id", "partition", "first"),
                    key,
                    strict=True,
                )
            ),
            "topic": each.topic,
            "last": each.last,
            "job_version": each.job_version,
            "at": at,
        }
        known = found.get(key)
        if known is None or known["last"] < row["last"]:
            found[key] = row
    return [row for _, row in sorted(found.items(), key=_key)]
