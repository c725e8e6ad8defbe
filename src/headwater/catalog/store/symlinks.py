"""A dataset that is known by several names (OpenLineage's symlinks) is one dataset.

What events say is stored under the name that they use: which of the names stands for all may change
with the next event. What belongs together is joined when it is read.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headwater.catalog.store.values import Row

# A facet is [moment, hash of its text], here followed by the dataset that the text is kept with,
# where that is not the one that is shown.
Words = dict[str, list[Any]]

_CURRENT = ("current_written", "current_at", "current_version")
_FIELDS = ("fields_at", "fields")


def owner(dataset: UUID, word: list[Any]) -> UUID:
    """The dataset with which a facet's text is kept."""
    return word[2] if len(word) > 2 else dataset


def later_words(facets: Words, others: Words) -> Words:
    """Facets by name; the later word holds."""
    found = dict(facets)
    for name, word in others.items():
        if name not in found or found[name] < word:
            found[name] = word
    return found


def join_names(row: Row, alias: Row) -> None:
    """Add to a dataset's row what is stored under another name of it.

    By the rules of the store: what was written goes before what was only seen, then the later.
    """
    row["created_at"] = min(row["created_at"], alias["created_at"])
    row["updated_at"] = max(row["updated_at"], alias["updated_at"])
    row["source"] = row["source"] or alias["source"]
    row["facets"] = later_words(row["facets"], _owned(alias, "facets"))
    if _is_later(row, alias, _CURRENT):
        row.update({key: alias[key] for key in (*_CURRENT, "lifecycle")})
        row["version_facets"] = _owned(alias, "version_facets")
    if _is_later(row, alias, _FIELDS):
        row.update({key: alias[key] for key in (*_FIELDS, "fields_text")})


def _owned(row: Row, key: str) -> Words:
    return {name: [*word, row["id"]] for name, word in (row[key] or {}).items()}


def _is_later(row: Row, alias: Row, keys: tuple[str, ...]) -> bool:
    if alias[keys[-1]] is None:
        return False
    return row[keys[-1]] is None or [row[key] for key in keys] < [alias[key] for key in keys]
