"""The part of `impact` that lies in tables: rows that were made from records that were reached."""

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
    """Numbers of rows by table; `made` are those that the job itself made, in all tables."""

    counts: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    made: int = 0


class Tables:
    """The known tables, kept."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[KnownTable, LineageTable] = {}

    def find(
        self, reached: Mapping[TopicPartition, OffsetRanges], asked: Address | JobOutput
    ) -> RowsInTables:
        """Rows that came of these records, or that the job made."""
        job = asked if isinstance(asked, JobOutput) else None
        rows = RowsInTables()
        for known in known_tables(self._settings):
            table = self._open.setdefault(known, LineageTable(known))
            try:
                found = table.find(reached, job)
            except LineageTableError as error:
                rows.unread[known.name] = error.message
                continue
            rows.made += found.made
            if found.rows:
                rows.counts[known.name] = found.rows
        return rows
