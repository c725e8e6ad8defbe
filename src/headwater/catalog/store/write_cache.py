"""What this process knows to be stored already, so that it need not be sent again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from headwater.catalog.ingest import Projection

Key = tuple[UUID, UUID]

# Removing unused texts spares those that were sent within a day: an entry must be much younger.
_SECONDS = 600.0
_MOST = 50_000


class _Recent:
    """Keys of the last minutes, the oldest of too many forgotten."""

    def __init__(self) -> None:
        self._until: OrderedDict[Key, float] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        until = self._until.get(key)  # type: ignore[call-overload]
        return until is not None and until > time.monotonic()

    def add(self, keys: Iterable[Key]) -> None:
        now = time.monotonic()
        for key in keys:
            # A known key keeps its end: it was not sent just now.
            if self._until.get(key, 0.0) <= now:
                self._until[key] = now + _SECONDS
                self._until.move_to_end(key)
        while len(self._until) > _MOST:
            self._until.popitem(last=False)


class Stored:
    """Texts and column edges that a committed transaction has written."""

    def __init__(self) -> None:
        self.documents = _Recent()
        self.columns = _Recent()

    def add(self, rows: Projection) -> None:
        """Only after the commit: before it, nothing is stored."""
        self.documents.add(rows.documents)
        self.columns.add(rows.column_edges)
