"""Tables with lineage: those that jobs of this home have written, and those in the settings."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from headwater.model.local_files import state_folder
from headwater.settings import Settings

FOLDER = "tables"


@dataclass(frozen=True, slots=True, order=True)
class KnownTable:
    """A table: its name for users, and its folder."""

    name: str
    location: str


def register(table: KnownTable, settings: Settings) -> None:
    """Register a table; idempotent."""
    folder = state_folder(settings.home_dir, FOLDER)
    name = hashlib.sha256(table.location.encode()).hexdigest()[:32]
    unfinished = folder / f".{name}.{os.getpid()}"
    unfinished.write_text(json.dumps(asdict(table)), encoding="utf-8")
    unfinished.replace(folder / f"{name}.json")


def known_tables(settings: Settings) -> list[KnownTable]:
    """All registered tables, sorted by name."""
    tables = {
        str(location): KnownTable(str(location), str(location))
        for location in map(Path.absolute, settings.index.tables)
    }
    for file in (settings.home_dir / FOLDER).glob("*.json"):
        table = KnownTable(**json.loads(file.read_text(encoding="utf-8")))
        # Earlier versions registered `file:///x` as `///x`.
        location = re.sub("^/+", "/", table.location)
        tables[location] = KnownTable(table.name, location)
    return sorted(tables.values())
