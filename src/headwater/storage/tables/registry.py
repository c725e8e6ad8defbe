"""Which tables hold rows with lineage: those that jobs of this home have written, and those that
the settings name."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from headwater.settings import Settings

FOLDER = "tables"


@dataclass(frozen=True, slots=True, order=True)
class KnownTable:
    """A table, by the name that people know and the folder in which it lies."""

    name: str
    location: str


def register(table: KnownTable, settings: Settings) -> None:
    """Remember a table; to do so again changes nothing."""
    folder = settings.home_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(table.location.encode()).hexdigest()[:32]
    unfinished = folder / f".{name}.{os.getpid()}"
    unfinished.write_text(json.dumps(asdict(table)), encoding="utf-8")
    unfinished.replace(folder / f"{name}.json")


def known_tables(settings: Settings) -> list[KnownTable]:
    """All of them, by name."""
    found = {
        str(location): KnownTable(str(location), str(location))
        for location in map(Path.absolute, settings.index.tables)
    }
    for note in (settings.home_dir / FOLDER).glob("*.json"):
        table = KnownTable(**json.loads(note.read_text(encoding="utf-8")))
        found[table.location] = table
    return sorted(found.values())
