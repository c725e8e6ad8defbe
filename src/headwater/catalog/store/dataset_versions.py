"""Versions of a dataset: written by runs, or observed without a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.identity import unversioned_id
from headwater.catalog.store import runs
from headwater.catalog.store.datasets import (
    TEXTS,
    all_tags,
    cut_facets,
    description,
    documents_of,
    fields_json,
    full_facets,
    tags_of,
)
from headwater.catalog.store.derived import COUNTS
from headwater.catalog.store.limits import response_bytes, truncated, within_limit
from headwater.catalog.store.queries import count, fetch
from headwater.catalog.store.symlinks import Granted
from headwater.catalog.store.values import Json, Row, facets_json, to_rfc3339

_VERSIONS = """
SELECT v.*, f.body AS fields_text FROM dataset_versions v
LEFT JOIN documents f ON f.dataset_id = v.dataset_id AND f.hash = v.fields
WHERE v.dataset_id {names} AND {only}
ORDER BY v.created_at DESC, v.id LIMIT %(limit)s OFFSET %(offset)s
"""

# Readers read the version that was written: what they have seen is listed only if it is older.
_LISTED = f"""(NOT v.read OR v.created_at < coalesce((
    SELECT v.created_at FROM dataset_versions v LEFT JOIN runs r ON r.id = v.run_id
    WHERE v.dataset_id {{names}} AND NOT v.read AND {COUNTS} ORDER BY v.created_at LIMIT 1
), 'infinity'))"""

_SHOWN = "id, dataset_id, run_id, created_at, fields, lifecycle"
_NEWEST = "created_at DESC, id"
_ALIASES = """
SELECT id FROM datasets WHERE canonical_id = %s AND canonical_id <> id
    AND (%s::text[] IS NULL OR namespace = ANY(%s))
"""


async def versions(
    connection: AsyncConnection[Any],
    dataset: Row,
    *,
    version: UUID | None = None,
    limit: int = 100,
    offset: int = 0,
    granted: Granted = None,
) -> tuple[list[Json], int]:
    """Versions of a dataset, newest first, and their total count; or only `version`.

    A dataset that has none, such as an input without columns, has one with its facets. A limited
    key sees the runs in its namespaces only.
    """
    namespaces = None if granted is None else list(granted)
    aliases = await fetch(connection, _ALIASES, (dataset["id"], namespaces, namespaces))
    ids = [dataset["id"], *(row["id"] for row in aliases)]
    # Most datasets have one name: equality lets the index provide the order.
    names = "= ANY(%(datasets)s)" if len(ids) > 1 else "= %(dataset)s"
    values = {"dataset": dataset["id"], "datasets": ids, "version": version}
    only = "v.id = %(version)s" if version else _LISTED.format(names=names)
    statement = within_limit(
        _VERSIONS.format(names=names, only=only),
        _SHOWN,
        facets=["facets"],
        texts=TEXTS,
        order=_NEWEST,
        markers=False,
    )
    page = {
        "limit": limit,
        "offset": offset,
        # Half of the limit: columns are parsed, which takes ten times their size.
        "facet_bytes": response_bytes(connection) // 2,
    }
    rows = await fetch(connection, statement, {**values, **page})
    total = await count(
        connection, f"dataset_versions v WHERE v.dataset_id {names} AND {only}", values
    )
    if not total and version in (None, unversioned_id(dataset["id"])):
        rows, total = ([] if offset else [_unversioned(dataset)][:limit]), 1
    tags = (await tags_of(connection, [dataset["id"]]))[dataset["id"]]
    texts = await documents_of(connection, rows)
    writers = await runs.rows_by_id(connection, [row["run_id"] for row in rows if row["run_id"]])
    if granted is not None:
        writers = [run for run in writers if run["job_namespace"] in granted]
    by_run = await runs.shaped(connection, writers, granted)
    shown = [_version_json(dataset, row, tags, texts, by_run.get(row["run_id"])) for row in rows]
    return shown, total


def _unversioned(dataset: Row) -> Row:
    """The version of a dataset that no event has given one."""
    copied = ("facets", "created_at", "cut", "fields", *TEXTS)
    return {
        **{name: dataset[name] for name in copied},
        "id": unversioned_id(dataset["id"]),
        "dataset_id": dataset["id"],
        "run_id": None,
        "lifecycle": "",
    }


def _version_json(
    dataset: Row,
    row: Row,
    tags: dict[str, list[str]],
    texts: dict[tuple[UUID, str], str],
    run: Json | None,
) -> Json:
    facets = full_facets(row["dataset_id"], row["facets"], texts)
    tags = all_tags(tags, facets)
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
        **truncated(row["cut"], cut_facets(facets), run is not None and run.get("truncated")),
    }
    if dataset["type"] == "STREAM":
        shown["schemaLocation"] = row["schema_location"]
    return shown
