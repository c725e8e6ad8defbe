"""Datasets with several names (OpenLineage symlinks).

Events are stored under the name that they use, because a later event may change the canonical name.
The names of a dataset are merged when it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from headwater.catalog.store.values import Row

# (alias, dataset that names it, time of the first event that does)
Link = tuple[UUID, UUID, datetime]

# A facet is [time, hash of its text]. If the text is stored with an alias, the id of the alias
# follows.
StoredFacets = dict[str, list[Any]]

# The namespaces that a key can access; None: all.
Granted = Collection[str] | None

_CURRENT = ("current_written", "current_described", "current_at", "current_version")
_FIELDS = ("fields_described", "fields_at", "fields")


def canonical_names(links: Iterable[Link]) -> dict[UUID, UUID]:
    """The canonical dataset of every alias in `links`.

    An alias leads to the dataset that named it first; aliases of aliases are followed. Of datasets
    that name each other, the one that became an alias last is canonical. The result does not depend
    on the order of the links.
    """
    first: dict[UUID, tuple[datetime, UUID]] = {}
    for alias, dataset, at in links:
        if alias not in first or (at, dataset) < first[alias]:
            first[alias] = (at, dataset)
    canonical: dict[UUID, UUID] = {}
    for alias in first:
        _follow(alias, first, canonical)
    return {alias: canonical[alias] for alias in first}


def _follow(
    start: UUID, first: dict[UUID, tuple[datetime, UUID]], canonical: dict[UUID, UUID]
) -> None:
    """Record the canonical dataset of every name on the path, so a long chain is walked once."""
    path: dict[UUID, int] = {}
    name = start
    while name not in canonical:
        if name not in first:
            canonical[name] = name
        elif name in path:
            cycle = list(path)[path[name] :]
            canonical[name] = max(cycle, key=lambda each: (first[each], each))
        else:
            path[name] = len(path)
            name = first[name][1]
    for passed in path:
        canonical[passed] = canonical[name]


def owner(dataset: UUID, value: list[Any]) -> UUID:
    """The dataset with which the text of a facet is stored."""
    return value[2] if len(value) > 2 else dataset


def latest_facets(facets: StoredFacets, others: StoredFacets) -> StoredFacets:
    """Facets by name, the latest of each."""
    latest = dict(facets)
    for name, value in others.items():
        if name not in latest or latest[name] < value:
            latest[name] = value
    return latest


def hide_canonical(row: Row, granted: Granted) -> None:
    """Replace the canonical name of a run's or job's dataset by the one that its events use.

    Only if a limited key can't access the canonical name. The version of a dataset that it can't
    access is not shown either.
    """
    if granted is None or row["namespace"] in granted:
        return
    row["dataset_id"] = row["id"]
    row["namespace"], row["name"] = row["named_namespace"], row["named_name"]
    if row["namespace"] not in granted:
        row["version"] = None


def merge_alias(row: Row, alias: Row) -> None:
    """Merge the row of an alias into the row of its dataset.

    By the rules of the store: a written version precedes a described one, and this one precedes a
    version that was only read; then the latest.
    """
    row["created_at"] = min(row["created_at"], alias["created_at"])
    row["updated_at"] = max(row["updated_at"], alias["updated_at"])
    row["source"] = row["source"] or alias["source"]
    writes = [each["written_at"] for each in (row, alias) if each["written_at"]]
    row["written_at"] = max(writes, default=None)
    row["unversioned"] &= alias["unversioned"]
    row["facets"] = latest_facets(row["facets"], _owned(alias, "facets"))
    if _is_later(row, alias, _CURRENT):
        row.update({key: alias[key] for key in (*_CURRENT, "lifecycle")})
        row["version_facets"] = _owned(alias, "version_facets")
    if _is_later(row, alias, _FIELDS):
        row.update({key: alias[key] for key in (*_FIELDS, "fields_text")})


def _owned(row: Row, key: str) -> StoredFacets:
    return {name: [*value, row["id"]] for name, value in (row[key] or {}).items()}


def _is_later(row: Row, alias: Row, keys: tuple[str, ...]) -> bool:
    if alias[keys[-1]] is None:
        return False
    return row[keys[-1]] is None or [row[key] for key in keys] < [alias[key] for key in keys]
