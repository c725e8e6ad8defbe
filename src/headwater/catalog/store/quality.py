"""Quality of a dataset over time: what its writers and its readers measured and tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.identity import unversioned_id
from headwater.catalog.store import runs
from headwater.catalog.store.datasets import cut_facets, documents_of, full_facets
from headwater.catalog.store.limits import response_bytes, truncated, within_limit
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.symlinks import Granted
from headwater.catalog.store.values import Json, Row, facets_json, to_rfc3339

FACETS = ("dataQualityMetrics", "dataQualityAssertions")
# As the index has it.
_ANY = "facets ?| ARRAY['dataQualityMetrics', 'dataQualityAssertions']"

_NAMES = """
SELECT %(dataset)s::uuid AS id
UNION ALL SELECT id FROM datasets WHERE canonical_id = %(dataset)s AND canonical_id <> id
    AND (%(granted)s::text[] IS NULL OR namespace = ANY(%(granted)s))
"""

_WRITTEN = f"""
SELECT v.id AS version, v.run_id, v.dataset_id, v.created_at, v.last_seen AS at, v.facets
FROM ({_NAMES}) n JOIN dataset_versions v ON v.dataset_id = n.id
WHERE NOT v.read AND v.{_ANY} ORDER BY v.created_at DESC, v.id DESC LIMIT %(limit)s
"""

_ONLY_QUALITY = ", ".join(f"'{name}', r.facets->'{name}'" for name in FACETS)
_READ = within_limit(
    f"""
SELECT r.run_id AS id, r.run_id, r.dataset_id, r.at,
    jsonb_strip_nulls(jsonb_build_object({_ONLY_QUALITY})) AS facets
FROM ({_NAMES}) n
CROSS JOIN LATERAL (
    SELECT * FROM run_datasets
    WHERE dataset_id = n.id AND NOT output AND described AND {_ANY}
    ORDER BY at DESC LIMIT %(limit)s
) r
ORDER BY r.at DESC, r.run_id DESC LIMIT %(limit)s
""",
    "id, run_id, dataset_id, at",
    facets=["facets"],
    order="at DESC, run_id DESC",
)


async def quality(
    connection: AsyncConnection[Any], dataset: UUID, limit: int, granted: Granted = None
) -> list[Json]:
    """Metrics and assertions, newest first.

    From the versions that runs wrote or events described, and from runs that read the dataset:
    tests, such as those of dbt, report the results on their input. A limited key sees names and
    runs in its namespaces only.
    """
    values = {
        "dataset": dataset,
        "limit": limit,
        "facet_bytes": response_bytes(connection),
        "granted": None if granted is None else list(granted),
    }
    written = await fetch(connection, _WRITTEN, values)
    for row in written:
        row["facets"] = _only_quality(row["facets"])
    texts = await documents_of(connection, written)
    for row in written:
        row["facets"] = full_facets(row["dataset_id"], row["facets"], texts)
        row["cut"] = cut_facets(row["facets"])
    read = await fetch(connection, _READ, values)
    datasets = await runs.datasets_of(connection, [row["run_id"] for row in read])
    for row in read:
        versions = [d["version"] for d in datasets.of(row["run_id"]) if _is_input(d, dataset)]
        row["version"] = (versions and versions[0]) or unversioned_id(dataset)
    points = sorted([*written, *read], key=lambda row: (row["at"], row["version"]), reverse=True)
    of_runs = await _runs(connection, points[:limit], granted)
    return [
        {
            "at": to_rfc3339(row["at"]),
            "version": str(row["version"]),
            "written": "created_at" in row,
            "run": of_runs.get(row["run_id"]),
            "facets": facets_json(row["facets"]),
            **truncated(row["cut"]),
        }
        for row in points[:limit]
    ]


def _is_input(row: Row, dataset: UUID) -> bool:
    return not row["output"] and row["dataset_id"] == dataset


def _only_quality(facets: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: facets[name] for name in FACETS if name in facets}


async def _runs(
    connection: AsyncConnection[Any], points: Sequence[Row], granted: Granted
) -> dict[UUID, Json]:
    ids = {row["run_id"] for row in points if row["run_id"]}
    found = await runs.rows_by_id(connection, sorted(ids))
    return {
        row["id"]: {
            "id": str(row["id"]),
            "namespace": row["job_namespace"],
            "name": row["job_name"],
            "state": runs.run_state(row),
        }
        for row in found
        if granted is None or row["job_namespace"] in granted
    }
