"""Records that their topic has dropped, from its archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.kafka import Absence, RecordReader
from headwater.model import Address, Record
from headwater.settings import Settings
from headwater.storage.archive.contract import archive_path
from headwater.tracing.node import State
from headwater.tracing.walk import Sources

if TYPE_CHECKING:
    from headwater.storage.archive.reader import Archive


def sources_of(reader: RecordReader, settings: Settings) -> Sources:
    """Where records are looked for: in Kafka, then in the archives."""
    return [(State.FOUND, reader), (State.ARCHIVED, Archives(settings))]


class Archives:
    """The archives of all topics; each is opened when a record of its topic is asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Archive | None] = {}

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, or that there is none.

        Raises:
            ArchiveError: the archive is damaged, or another table.
            MissingPartError: there is an archive, and the extra `index` is not installed.
        """
        if address.topic not in self._open:
            self._open[address.topic] = self._archive(address.topic)
        archive = self._open[address.topic]
        return Absence.NO_PARTITION if archive is None else archive.fetch(address)

    def _archive(self, topic: str) -> Archive | None:
        if not (archive_path(topic, self._settings) / "_delta_log").is_dir():
            return None
        # Not before: who has no archive needs no package to read one.
        from headwater.storage.archive.reader import Archive

        return Archive.open(topic, self._settings)
