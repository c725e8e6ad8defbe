"""The tables in `impact`: rows that were made from the affected records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import LineageTableError
from headwater.model import Address, JobOutput, TopicPartition
from headwater.settings import Settings
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import KnownTable, known_tables


@dataclass
class RowsInTables:
    """Number of rows by table; `made` is the number of rows that the job itself made; `within` may
    be made from the records, or not."""

    within: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    made: int = 0


class Tables:
    """The registered tables, kept open."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[KnownTable, LineageTable] = {}

    def find(
        self,
        reached: Mapping[TopicPartition, OffsetRanges],
        start: Address | JobOutput,
        within: Mapping[TopicPartition, OffsetRanges],
    ) -> RowsInTables:
        """Count the rows that were made from these records, or by the job.

        Args:
            within: records that may be made from those.
        """
        job = start if isinstance(start, JobOutput) else None
        rows = RowsInTables()
        for known in known_tables(self._settings):
            table = self._open.setdefault(known, LineageTable(known))
            try:
                matching = table.find(reached, job, within)
            except LineageTableError as error:
                rows.unread[known.name] = error.message
                continue
            rows.made += matching.made
            if matching.rows:
                rows.counts[known.name] = matching.rows
            if matching.within:
                rows.within[known.name] = matching.within
        return rows
