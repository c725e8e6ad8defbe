"""Converts a projection to rows for the statements, sorted by key.

The order matters: two writers must lock the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from headwater.catalog.identity import namespace_id, source_id
from headwater.catalog.ingest import Projection
from headwater.catalog.ingest.rows import ColumnEdge, FacetMap, Span
from headwater.catalog.store.values import Row

# Later than any time: without facets there is no late one.
_NEVER = 2**62
_SCHEMES = {"postgres": "POSTGRESQL", "postgresql": "POSTGRESQL"}

_RUN = (
    "job_id",
    "job_at",
    "seen_at",
    "last_event_at",
    "started_at",
    "running_at",
    "ended_at",
    "end_state",
    "completed",
    "streaming",
    "parent_run_id",
)


def _by_key(rows: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return sorted(rows.items(), key=lambda item: item[0])


def _copied(row: Any, *names: str) -> Row:
    return {name: getattr(row, name) for name in names}


def _facets(facets: FacetMap, prefix: str = "") -> Row:
    times = [time for time, _ in facets.values()]
    return {
        f"{prefix}facets": facets,
        f"{prefix}facets_from": min(times, default=_NEVER),
        f"{prefix}facets_at": max(times, default=0),
    }


def _span(span: Span) -> Row:
    return {"first": span.first, "last": span.last}


def namespaces(rows: Projection) -> list[Row]:
    ids = {namespace_id(name): (name, at) for name, at in rows.namespaces.items()}
    return [{"id": key, "name": name, "at": at} for key, (name, at) in _by_key(ids)]


def sources(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            "name": row.name,
            "type": source_type(row.url or row.name),
            "connection_url": row.url,
            "url_at": row.url_at,
            **_span(row.seen),
        }
        for key, row in _by_key({source_id(row.name): row for row in rows.sources.values()})
    ]


def source_names(rows: Projection) -> list[Row]:
    ids = {source_id(name): (name, at) for name, at in rows.source_names.items()}
    return [
        {"id": key, "name": name, "type": source_type(name), "at": at}
        for key, (name, at) in _by_key(ids)
    ]


def source_type(url: str) -> str:
    """The type of a source, from its URL: `s3://lake` is S3."""
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme.isalnum():
        return "OTHER"
    return _SCHEMES.get(scheme.lower(), scheme.upper())


def _named(key: UUID, row: Any) -> Row:
    return {
        "id": key,
        "namespace_id": namespace_id(row.namespace),
        "namespace": row.namespace,
        "name": row.name,
        **_span(row.seen),
        **_facets(row.facets),
    }


def datasets(rows: Projection) -> list[Row]:
    return [
        {**_named(key, row), **_copied(row, "source", "source_at")}
        for key, row in _by_key(rows.datasets)
    ]


def references(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            "namespace_id": namespace_id(row.namespace),
            "namespace": row.namespace,
            "name": row.name,
            **_span(row.seen),
        }
        for key, row in _by_key(rows.references)
    ]


def symlinks(rows: Projection) -> list[Row]:
    return [
        {"alias_id": alias, "dataset_id": dataset, "at": at}
        for (alias, dataset), at in _by_key(rows.symlinks)
    ]


def documents(texts: Mapping[tuple[UUID, UUID], str]) -> list[Row]:
    return [
        {"dataset_id": dataset, "hash": digest, "body": body}
        for (dataset, digest), body in _by_key(texts)
    ]


def versions(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            **_copied(row, "dataset_id", "run_id", "fields", "lifecycle", "read", "written_at"),
            **_span(row.seen),
            **_facets(row.facets),
        }
        for key, row in _by_key(rows.versions)
    ]


def jobs(rows: Projection) -> list[Row]:
    return [
        {
            **_named(key, row),
            **_copied(row, "parent_id", "parent_at"),
            **_facets(row.own_facets, "own_"),
        }
        for key, row in _by_key(rows.jobs)
    ]


def runs(rows: Projection) -> list[Row]:
    return [
        {
            "id": key,
            **_copied(row, *_RUN),
            "job_told": row.job_confirmed,
            **_facets(row.facets),
            **_facets(row.job_facets, "job_"),
        }
        for key, row in _by_key(rows.runs)
    ]


def run_datasets(rows: Projection) -> list[Row]:
    return [
        {
            "run_id": run,
            "dataset_id": dataset,
            "output": output,
            **_copied(row, "at", "version_id", "version_at", "described"),
            **_facets(row.facets),
        }
        for (run, dataset, output), row in _by_key(rows.run_datasets)
    ]


def edges(rows: Projection) -> list[Row]:
    return [
        {"job_id": job, "dataset_id": dataset, "output": output, **_span(span)}
        for (job, dataset, output), span in _by_key(rows.edges)
    ]


def column_sets(rows: Projection) -> list[Row]:
    return [
        {"dataset_id": dataset, "job_id": job, "hash": digest, **_span(span)}
        for (dataset, job, digest), span in _by_key(rows.column_sets)
    ]


def column_edges(rows: Projection) -> list[Row]:
    names = ("field", "input_id", "input_field", "transformations", "description", "type")
    return [
        {"dataset_id": dataset, "hash": digest, **_copied(edge, *names)}
        for (dataset, digest), listed in _by_key(rows.column_edges)
        for edge in sorted(listed, key=_column)
    ]


def progress(rows: Projection) -> list[Row]:
    return [{"run_id": run, **asdict(counts)} for run, counts in _by_key(rows.progress)]


def _column(edge: ColumnEdge) -> tuple[str, UUID, str]:
    return edge.field, edge.input_id, edge.input_field


def ranges(rows: Projection) -> list[Row]:
    names = ("run_id", "batch", "output", "dataset_id", "partition", "first")
    return [
        {**dict(zip(names, key, strict=True)), **_copied(row, "topic", "last", "job_version", "at")}
        for key, row in _by_key(rows.ranges)
    ]
