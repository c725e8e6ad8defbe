"""Changes made through the API instead of events.

They use the same rows and merges as events, with the time of the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.identity import (
    content_id,
    dataset_id,
    dataset_version_id,
    job_id,
    namespace_id,
    source_id,
)
from headwater.catalog.ingest import Projection
from headwater.catalog.ingest.rows import (
    DatasetRow,
    JobRow,
    RunDatasetRow,
    RunRow,
    Span,
    VersionRow,
    facet_map,
)
from headwater.catalog.store.merge import merge
from headwater.catalog.store.symlinks import Granted
from headwater.catalog.store.values import Json, Row
from headwater.catalog.store.write_cache import WriteCache

Name = tuple[str, str]
_NO_FIELDS = UUID(int=0)


async def put_namespace(
    connection: AsyncConnection[Any], name: str, owner: str | None, description: str | None
) -> None:
    """Create or update a namespace; None leaves a value unchanged."""
    await connection.execute(
        "INSERT INTO namespaces (id, name, owner, description, created_at, updated_at) "
        "VALUES (%(id)s, %(name)s, coalesce(%(owner)s, 'anonymous'), %(description)s, now(), "
        "now()) "
        "ON CONFLICT (id) DO UPDATE SET owner = coalesce(%(owner)s, namespaces.owner), "
        "description = coalesce(%(description)s, namespaces.description), "
        "updated_at = now(), hidden = false",
        {"id": namespace_id(name), "name": name, "owner": owner, "description": description},
    )


async def put_source(
    connection: AsyncConnection[Any], name: str, kind: str, url: str, description: str | None
) -> None:
    await connection.execute(
        "INSERT INTO sources (id, name, type, connection_url, url_at, description, created_at, "
        "updated_at) VALUES (%(id)s, %(name)s, %(kind)s, %(url)s, now(), %(description)s, now(), "
        "now()) ON CONFLICT (id) DO UPDATE SET type = excluded.type, url_at = now(), "
        "connection_url = excluded.connection_url, updated_at = now(), "
        "description = coalesce(excluded.description, sources.description)",
        {
            "id": source_id(name),
            "name": name,
            "kind": kind,
            "url": url,
            "description": description,
        },
    )


async def put_tag(connection: AsyncConnection[Any], name: str, description: str | None) -> Json:
    """Create or update a tag; returns the stored tag."""
    cursor = await connection.execute(
        "INSERT INTO tags (name, description) VALUES (%s, %s) ON CONFLICT (name) "
        "DO UPDATE SET description = coalesce(excluded.description, tags.description) "
        "RETURNING description",
        (name, description),
    )
    stored = await cursor.fetchone()
    return {"name": name, "description": stored[0] if stored else None}


async def put_dataset(
    connection: AsyncConnection[Any], name: Name, body: Json, now: datetime
) -> None:
    """Create or update a dataset, and add a version."""
    key = dataset_id(*name)
    rows = Projection()
    rows.namespaces[name[0]] = now
    rows.datasets[key] = DatasetRow(*name, Span(now, now), body["sourceName"], now)
    fields = None
    if body.get("fields") is not None:
        listed = [{k: f.get(k) for k in ("name", "type", "description")} for f in body["fields"]]
        text = orjson.dumps(listed).decode()
        fields = content_id(text.encode())
        rows.documents[key, fields] = text
    run = body.get("runId")
    version = dataset_version_id(key, fields or _NO_FIELDS, "", run)
    written = now if run is not None else None
    rows.versions[version] = VersionRow(key, run, Span(now, now), fields, "", written)
    if run is not None:
        rows.run_datasets[run, key, True] = RunDatasetRow(now, version, now)
    await merge(connection, rows, WriteCache())
    await connection.execute(
        "UPDATE datasets SET type = %s, physical_name = %s, "
        "description = coalesce(%s, description), "
        "schema_location = %s, current_version = %s, current_at = %s, current_written = %s, "
        "current_described = true, written_at = coalesce(%s, written_at) WHERE id = %s",
        (
            body["type"],
            body["physicalName"],
            body.get("description"),
            body.get("schemaLocation"),
            version,
            now,
            run is not None,
            written,
            key,
        ),
    )
    await connection.execute(
        "UPDATE dataset_versions SET lifecycle = NULL, description = %s, schema_location = %s "
        "WHERE id = %s",
        (body.get("description"), body.get("schemaLocation"), version),
    )
    tags = [("", tag) for tag in body.get("tags") or []]
    tags += [(f["name"], tag) for f in body.get("fields") or [] for tag in f.get("tags") or []]
    await tag_dataset(connection, key, tags)


async def put_job(
    connection: AsyncConnection[Any],
    name: Name,
    body: Json,
    now: datetime,
    granted: Granted = None,
) -> None:
    """Create or update a job with its inputs and outputs.

    Args:
        granted: datasets of other namespaces are only referred to.
    """
    key = job_id(*name)
    facets: Json = {"jobType": {"processingType": body["type"]}}
    if body.get("description") is not None:
        facets["documentation"] = {"description": body["description"]}
    if body.get("location") is not None:
        facets["sourceCodeLocation"] = {"url": body["location"]}
    rows = Projection()
    rows.namespaces[name[0]] = now
    rows.jobs[key] = JobRow(*name, Span(now, now), facets=facet_map(facets, now))
    for output, listed in ((False, body.get("inputs") or []), (True, body.get("outputs") or [])):
        for each in listed:
            dataset = dataset_id(*each)
            if granted is None or each[0] in granted:
                rows.namespaces[each[0]] = now
                rows.datasets.setdefault(dataset, DatasetRow(each[0], each[1], Span(now, now)))
            else:
                rows.references[dataset] = DatasetRow(each[0], each[1], Span(now, now))
            rows.edges[key, dataset, output] = Span(now, now)
            if body.get("runId") is not None:
                rows.run_datasets[body["runId"], dataset, output] = RunDatasetRow(now)
    await merge(connection, rows, WriteCache())


async def create_run(
    connection: AsyncConnection[Any], run: UUID, job: Row, body: Json, now: datetime
) -> None:
    """Create a run that has not started, with the known inputs of its job."""
    rows = Projection()
    rows.runs[run] = RunRow(job["id"], now, True, now)
    cursor = await connection.execute(
        "SELECT dataset_id FROM edges WHERE job_id = %s AND NOT output", (job["id"],)
    )
    for (dataset,) in await cursor.fetchall():
        rows.run_datasets[run, dataset, False] = RunDatasetRow(now)
    await merge(connection, rows, WriteCache())
    await connection.execute(
        "UPDATE runs SET nominal_start = %s, nominal_end = %s, args = %s, last_event_at = %s "
        "WHERE id = %s",
        (
            body.get("nominalStartTime"),
            body.get("nominalEndTime"),
            orjson.dumps(body.get("args") or {}).decode(),
            now,
            run,
        ),
    )


async def mark_run(
    connection: AsyncConnection[Any], run: Row, event_type: str, at: datetime
) -> None:
    """Change the state of a run as a START, COMPLETE, FAIL or ABORT event would."""
    row = RunRow(run["job_id"], run["job_at"], run["job_told"], run["seen_at"])
    row.add_state(event_type, at)
    rows = Projection()
    rows.runs[run["id"]] = row
    await merge(connection, rows, WriteCache())


async def tag_dataset(
    connection: AsyncConnection[Any], dataset: UUID, tags: Sequence[tuple[str, str]]
) -> None:
    """Add (column, tag) pairs; an empty column stands for the dataset itself."""
    if not tags:
        return
    await _create_tags(connection, [tag for _, tag in tags])
    await connection.execute(
        "INSERT INTO dataset_tags (dataset_id, field, tag) "
        "SELECT %s, field, tag FROM unnest(%s::text[], %s::text[]) AS x(field, tag) "
        "ON CONFLICT DO NOTHING",
        (dataset, [field for field, _ in tags], [tag for _, tag in tags]),
    )


async def _create_tags(connection: AsyncConnection[Any], names: Sequence[str]) -> None:
    # Sorted: two writers that create the same tags must not deadlock.
    await connection.execute(
        "INSERT INTO tags (name) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING",
        (sorted(set(names)),),
    )


async def untag_dataset(
    connection: AsyncConnection[Any], dataset: UUID, field: str, *tags: str
) -> None:
    await connection.execute(
        "DELETE FROM dataset_tags WHERE dataset_id = %s AND field = %s AND tag = ANY(%s)",
        (dataset, field, list(tags)),
    )


async def tag_job(connection: AsyncConnection[Any], job: UUID, tag: str) -> None:
    await _create_tags(connection, [tag])
    await connection.execute(
        "INSERT INTO job_tags (job_id, tag) VALUES (%s, %s) ON CONFLICT DO NOTHING", (job, tag)
    )


async def untag_job(connection: AsyncConnection[Any], job: UUID, tag: str) -> None:
    await connection.execute("DELETE FROM job_tags WHERE job_id = %s AND tag = %s", (job, tag))


async def hide(connection: AsyncConnection[Any], table: str, keys: Sequence[UUID]) -> None:
    """Delete jobs or datasets; the next event that names one restores it."""
    tables = {"jobs": "UPDATE jobs", "datasets": "UPDATE datasets"}
    await connection.execute(f"{tables[table]} SET hidden = true WHERE id = ANY(%s)", (list(keys),))


async def hide_namespace(
    connection: AsyncConnection[Any], name: str, granted: Granted = None
) -> None:
    """Delete a namespace with its jobs and datasets.

    Args:
        granted: datasets with names in other namespaces are kept.
    """
    key = (namespace_id(name),)
    # In the order in which events lock the tables.
    await connection.execute("UPDATE namespaces SET hidden = true WHERE id = %s", key)
    await connection.execute(
        "UPDATE datasets d SET hidden = true WHERE d.namespace_id = %s AND NOT EXISTS ("
        "SELECT FROM datasets a WHERE a.canonical_id = d.id AND a.canonical_id <> a.id "
        "AND %s::text[] IS NOT NULL AND a.namespace <> ALL(%s))",
        (*key, *(None if granted is None else list(granted) for _ in range(2))),
    )
    await connection.execute("UPDATE jobs SET hidden = true WHERE namespace_id = %s", key)
