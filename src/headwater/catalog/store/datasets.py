"""Datasets, in the JSON of Marquez's API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.identity import Name, dataset_id, namespace_id, unversioned_id
from headwater.catalog.store.limits import (
    is_marker,
    marker,
    response_bytes,
    truncated,
    within_limit,
)
from headwater.catalog.store.queries import count, fetch
from headwater.catalog.store.symlinks import Granted, latest_facets, merge_alias, owner
from headwater.catalog.store.values import (
    Json,
    Row,
    dicts_of,
    facet,
    facet_tags,
    facets_json,
    text_of,
    to_rfc3339,
)

_COLUMNS = """
SELECT d.id, d.canonical_id, d.namespace, d.name, d.type, d.physical_name, d.source,
    d.description, d.schema_location, d.created_at, d.updated_at, d.facets, d.current_version,
    d.current_written, d.current_described, d.current_at, d.written_at, d.fields,
    d.fields_described, d.fields_at, d.hidden, v.lifecycle,
    v.facets AS version_facets, f.body AS fields_text, d.current_version IS NULL AND NOT EXISTS (
        SELECT FROM dataset_versions x WHERE x.dataset_id = d.id) AS unversioned
FROM datasets d
LEFT JOIN dataset_versions v ON v.id = d.current_version
LEFT JOIN documents f ON f.dataset_id = d.id AND f.hash = d.fields
"""
_SHOWN = (
    "id, canonical_id, namespace, name, type, physical_name, source, created_at, updated_at, "
    "current_version, current_written, current_described, current_at, written_at, fields, "
    "fields_described, fields_at, hidden, lifecycle, unversioned"
)
TEXTS = ("description", "schema_location", "fields_text")
# A limited key sees the names of a dataset in its namespaces, and no dataset that it only named.
_GRANTED = " AND (%(granted)s::text[] IS NULL OR d.namespace = ANY(%(granted)s))"
_DESCRIBED = " AND NOT (d.reference AND %(granted)s::text[] IS NOT NULL)"

# By its name, by an alias, or by the name of a dataset that a job of the namespace uses.
_NAMED = """
SELECT canonical_id FROM datasets WHERE id = %(id)s
UNION ALL
(SELECT d.canonical_id FROM datasets d JOIN edges e ON e.dataset_id IN (d.id, d.canonical_id)
 JOIN jobs j ON j.id = e.job_id
 WHERE left(d.name, 120) = left(%(name)s, 120) AND d.name = %(name)s
    AND j.namespace_id = %(namespace)s AND NOT j.hidden
    AND (%(granted)s::text[] IS NULL OR d.namespace = ANY(%(granted)s))
 ORDER BY e.last_seen DESC, d.id LIMIT 1)
LIMIT 1
"""


_DOCUMENTS = f"""
SELECT dataset_id, hash, CASE WHEN total <= %(bytes)s THEN body ELSE {marker("bytes")} END
FROM (
    SELECT dataset_id, hash, body, octet_length(body) AS bytes,
        sum(octet_length(body)) OVER (ORDER BY octet_length(body), dataset_id, hash) AS total
    FROM documents JOIN unnest(%(datasets)s::uuid[], %(hashes)s::uuid[])
        AS wanted(dataset_id, hash) USING (dataset_id, hash)
) AS measured
"""


async def by_name(
    connection: AsyncConnection[Any], namespace: str, name: str, granted: Granted = None
) -> Row | None:
    """The row of a dataset that is not deleted."""
    values = {
        "granted": None if granted is None else list(granted),
        "id": dataset_id(namespace, name),
        "name": name,
        "namespace": namespace_id(namespace),
    }
    match = await (await connection.execute(_NAMED, values)).fetchone()
    if match is None:
        return None
    rows = await by_ids(connection, [match[0]], granted)
    return rows[0] if rows else None


async def by_ids(
    connection: AsyncConnection[Any], ids: Sequence[UUID], granted: Granted = None
) -> list[Row]:
    statement = _COLUMNS + "WHERE d.id = ANY(%(ids)s) AND NOT d.hidden" + _DESCRIBED
    values = {"ids": list(ids), "granted": None if granted is None else list(granted)}
    rows = await _fetch(connection, statement, values)
    return await _with_aliases(connection, rows, granted)


async def _fetch(
    connection: AsyncConnection[Any], statement: str, values: Json, order: str = "id"
) -> list[Row]:
    # Facets are hashes here.
    columns = ("facets", "version_facets")
    limited = within_limit(
        statement, _SHOWN, facets=columns, texts=TEXTS, order=order, markers=False
    )
    # Half of the limit: columns are parsed, which takes ten times their size.
    return await fetch(
        connection, limited, {**values, "facet_bytes": response_bytes(connection) // 2}
    )


async def _with_aliases(
    connection: AsyncConnection[Any], rows: list[Row], granted: Granted
) -> list[Row]:
    """The rows, each merged with the rows of its aliases."""
    known = {row["id"]: row for row in rows}
    aliases = "WHERE d.canonical_id = ANY(%(ids)s) AND d.canonical_id <> d.id AND NOT d.reference"
    values = {"ids": list(known), "granted": None if granted is None else list(granted)}
    for alias in await _fetch(connection, f"{_COLUMNS}{aliases}{_GRANTED}", values):
        merge_alias(known[alias["canonical_id"]], alias)
        known[alias["canonical_id"]]["cut"] |= alias["cut"]
    return rows


async def has_other_names(
    connection: AsyncConnection[Any], dataset: UUID, granted: Collection[str]
) -> bool:
    """Whether a dataset has names in namespaces that a key can't access."""
    cursor = await connection.execute(
        "SELECT FROM datasets WHERE canonical_id = %s AND namespace <> ALL(%s) LIMIT 1",
        (dataset, list(granted)),
    )
    return await cursor.fetchone() is not None


async def missing(connection: AsyncConnection[Any], names: Sequence[Name]) -> list[Name]:
    """The names without a dataset."""
    ids = {dataset_id(*name): name for name in names}
    cursor = await connection.execute(
        "SELECT d.id FROM datasets d JOIN datasets c ON c.id = d.canonical_id "
        "WHERE d.id = ANY(%s) AND NOT c.hidden",
        (list(ids),),
    )
    existing = {key for (key,) in await cursor.fetchall()}
    return [name for key, name in ids.items() if key not in existing]


async def page(
    connection: AsyncConnection[Any],
    namespace: str,
    limit: int,
    offset: int,
    granted: Granted = None,
) -> tuple[list[Row], int]:
    """Datasets of a namespace by name, and their total count."""
    where = (
        "WHERE d.namespace_id = %(namespace)s AND d.canonical_id = d.id AND NOT d.hidden "
        "AND NOT d.reference"
    )
    values = {"namespace": namespace_id(namespace), "limit": limit, "offset": offset}
    order = " ORDER BY left(d.name, 120), d.name LIMIT %(limit)s OFFSET %(offset)s"
    rows = await _fetch(connection, _COLUMNS + where + order, values, order="left(name, 120), name")
    total = await count(connection, f"datasets d {where}", values)
    return await _with_aliases(connection, rows, granted), total


async def shaped(connection: AsyncConnection[Any], rows: Sequence[Row]) -> list[Json]:
    """Rows as JSON, in the same order."""
    tags = await tags_of(connection, [row["id"] for row in rows])
    texts = await documents_of(connection, rows)
    return [_dataset_json(row, tags[row["id"]], texts) for row in rows]


def cut_facets(facets: dict[str, list[Any]]) -> bool:
    """Whether some are too large for the response."""
    return any(is_marker(text) for _, text in facets.values())


async def tags_of(
    connection: AsyncConnection[Any], ids: Sequence[UUID]
) -> dict[UUID, dict[str, list[str]]]:
    """Tags by dataset and field; those of the dataset itself have the empty field."""
    tags: dict[UUID, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    cursor = await connection.execute(
        "SELECT dataset_id, field, tag FROM dataset_tags WHERE dataset_id = ANY(%s) "
        "ORDER BY dataset_id, field, tag",
        (list(ids),),
    )
    for dataset, field, tag in await cursor.fetchall():
        tags[dataset][field].append(tag)
    return tags


async def documents_of(
    connection: AsyncConnection[Any], rows: Sequence[Row]
) -> dict[tuple[UUID, str], str]:
    """The texts of all facets of the rows; markers for the largest, beyond the limit."""
    pairs = {
        (owner(row.get("dataset_id") or row["id"], value), value[1])
        for row in rows
        for facets in (row["facets"], row.get("version_facets") or {})
        for value in facets.values()
    }
    values = {
        "datasets": [dataset for dataset, _ in pairs],
        "hashes": [digest for _, digest in pairs],
        "bytes": response_bytes(connection),
    }
    cursor = await connection.execute(_DOCUMENTS, values)
    return {(dataset, str(digest)): body for dataset, digest, body in await cursor.fetchall()}


def full_facets(
    dataset: UUID, facets: dict[str, list[Any]], texts: dict[tuple[UUID, str], str]
) -> dict[str, list[Any]]:
    """Facets with their texts instead of hashes."""
    return {
        name: [value[0], texts[owner(dataset, value), value[1]]]
        for name, value in facets.items()
        if (owner(dataset, value), value[1]) in texts
    }


def head_json(row: Row, tags: dict[str, list[str]]) -> Json:
    """The fields that a dataset has alone and in a graph."""
    return {
        "id": {"namespace": row["namespace"], "name": row["name"]},
        "type": row["type"],
        "name": row["name"],
        "physicalName": row["physical_name"] or row["name"],
        "createdAt": to_rfc3339(row["created_at"]),
        "updatedAt": to_rfc3339(row["updated_at"]),
        "namespace": row["namespace"],
        "sourceName": row["source"] or "default",
        "fields": fields_json(row["fields_text"], tags),
        "tags": tags[""],
        # Marquez always returns null for datasets of OpenLineage events.
        "lastModifiedAt": None,
        "lastWrittenAt": to_rfc3339(row["written_at"]),
    }


def current_version(row: Row) -> str | None:
    """None if the versions of the dataset are all of runs that did not complete."""
    version = unversioned_id(row["id"]) if row["unversioned"] else row["current_version"]
    return str(version) if version else None


def fields_json(text: str | None, tags: dict[str, list[str]]) -> list[Json]:
    """Columns with their tags."""
    return [
        {
            "name": field["name"],
            "type": field["type"],
            "tags": tags.get(field["name"], []),
            "description": field["description"],
        }
        for field in (orjson.loads(text) if text else [])
    ]


def merged_facets(row: Row) -> dict[str, list[Any]]:
    """The facets of a dataset and of its current version, the latest of each name."""
    return latest_facets(row["facets"], row["version_facets"] or {})


def description(row: Row, facets: dict[str, list[Any]]) -> str | None:
    return text_of(facet(facets, "documentation").get("description")) or row["description"]


def all_tags(tags: dict[str, list[str]], facets: dict[str, list[Any]]) -> dict[str, list[str]]:
    """Tags of the API and of the `tags` facet, by column."""
    merged = defaultdict(list, {column: list(listed) for column, listed in tags.items()})
    for column, tag in facet_tags(facet(facets, "tags")):
        if tag not in merged[column]:
            merged[column].append(tag)
    return defaultdict(list, {column: sorted(listed) for column, listed in merged.items()})


def _dataset_json(row: Row, tags: dict[str, list[str]], texts: dict[tuple[UUID, str], str]) -> Json:
    facets = full_facets(row["id"], merged_facets(row), texts)
    shown = {
        **head_json(row, all_tags(tags, facets)),
        "lastLifecycleState": row["lifecycle"],
        "description": description(row, facets),
        "currentVersion": current_version(row),
        "columnLineage": column_lineage(facet(facets, "columnLineage")),
        "facets": facets_json(facets),
        "deleted": row["hidden"],
        **truncated(row["cut"], cut_facets(facets)),
    }
    if row["type"] == "STREAM":
        shown["schemaLocation"] = row["schema_location"]
    return shown


def column_lineage(facet_body: Json) -> list[Json] | None:
    """The facet as Marquez lists it in a dataset."""
    fields = facet_body.get("fields")
    if not isinstance(fields, dict):
        return None
    return [
        {
            "name": name,
            "inputFields": [
                {
                    "namespace": each.get("namespace"),
                    "dataset": each.get("name"),
                    "field": each.get("field"),
                    "transformationDescription": lineage.get("transformationDescription"),
                    "transformationType": lineage.get("transformationType"),
                }
                for each in dicts_of(lineage.get("inputFields"))
            ],
            "transformationDescription": lineage.get("transformationDescription"),
            "transformationType": lineage.get("transformationType"),
        }
        for name, lineage in fields.items()
        if isinstance(lineage, dict)
    ]
