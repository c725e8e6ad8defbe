"""Versions of a dataset: written by runs, or observed without a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.store import runs
from headwater.catalog.store.datasets import (
    description,
    documents_of,
    fields_json,
    full_facets,
    tags_of,
)
from headwater.catalog.store.queries import count, fetch
from headwater.catalog.store.values import Json, Row, facets_json, to_rfc3339

_VERSIONS = """
SELECT v.*, f.body AS fields_text FROM dataset_versions v
LEFT JOIN documents f ON f.dataset_id = v.dataset_id AND f.hash = v.fields
WHERE v.dataset_id {names} AND (%(version)s::uuid IS NULL OR v.id = %(version)s)
ORDER BY v.created_at DESC, v.id LIMIT %(limit)s OFFSET %(offset)s
"""

_ALIASES = "SELECT id FROM datasets WHERE canonical_id = %s AND canonical_id <> id"


async def versions(
    connection: AsyncConnection[Any],
    dataset: Row,
    *,
    version: UUID | None = None,
    limit: int = 100,
    offset: int = 0,
) -> tuple[list[Json], int]:
    """Versions of a dataset, newest first, and their total count; or only `version`."""
    aliases = await fetch(connection, _ALIASES, (dataset["id"],))
    ids = [dataset["id"], *(row["id"] for row in aliases)]
    # Most datasets have one name: equality lets the index provide the order.
    names = "= ANY(%(datasets)s)" if len(ids) > 1 else "= %(dataset)s"
    values = {"dataset": dataset["id"], "datasets": ids, "version": version}
    page = {"limit": limit, "offset": offset}
    rows = await fetch(connection, _VERSIONS.format(names=names), {**values, **page})
    tags = (await tags_of(connection, [dataset["id"]]))[dataset["id"]]
    texts = await documents_of(connection, rows)
    writers = await runs.rows_by_id(connection, [row["run_id"] for row in rows if row["run_id"]])
    by_run = await runs.shaped(connection, writers)
    shown = [_version_json(dataset, row, tags, texts, by_run.get(row["run_id"])) for row in rows]
    return shown, await count(connection, f"dataset_versions v WHERE v.dataset_id {names}", values)


def _version_json(
    dataset: Row,
    row: Row,
    tags: dict[str, list[str]],
    texts: dict[tuple[UUID, str], str],
    run: Json | None,
) -> Json:
    facets = full_facets(row["dataset_id"], row["facets"], texts)
    shown = {
        "id": {"namespace": dataset["namespace"], "name": dataset["name"]},
        "type": dataset["type"],
        "name": dataset["name"],
        "physicalName": dataset["physical_name"] or dataset["name"],
        "createdAt": to_rfc3339(row["created_at"]),
        "version": str(row["id"]),
        "namespace": dataset["namespace"],
        "sourceName": dataset["source"] or "default",
        "fields": fields_json(row["fields_text"], tags),
        "tags": tags[""],
        "lifecycleState": row["lifecycle"],
        "description": description(row, facets),
        "currentSchemaVersion": str(row["fields"]) if row["fields"] else None,
        "createdByRun": run,
        "facets": facets_json(facets),
    }
    if dataset["type"] == "STREAM":
        shown["schemaLocation"] = row["schema_location"]
    return shown
