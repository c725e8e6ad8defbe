"""Caches the keys of stored texts and column edges, so that they are not sent again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from headwater.catalog.ingest import Projection

Key = tuple[UUID, UUID]

# Retention keeps unused texts for a day after they were sent: an entry must expire much earlier.
_SECONDS = 600.0
_MAX_KEYS = 50_000


class _Recent:
    """Keys of the last minutes, limited in number."""

    def __init__(self) -> None:
        self._expires: OrderedDict[Key, float] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        expires = self._expires.get(key)  # type: ignore[call-overload]
        return expires is not None and expires > time.monotonic()

    def add(self, keys: Iterable[Key]) -> None:
        now = time.monotonic()
        for key in keys:
            # A known key keeps its expiry: it was not sent again.
            if self._expires.get(key, 0.0) <= now:
                self._expires[key] = now + _SECONDS
                self._expires.move_to_end(key)
        while len(self._expires) > _MAX_KEYS:
            self._expires.popitem(last=False)


class WriteCache:
    """Keys of texts and column edges of committed transactions."""

    def __init__(self) -> None:
        self.documents = _Recent()
        self.columns = _Recent()

    def add(self, rows: Projection) -> None:
        """Call it after the commit only."""
        self.documents.add(rows.documents)
        self.columns.add(rows.column_edges)
