"""Offsets at which the topic had no record when it was archived.

Markers of transactions take offsets, and compaction leaves some empty. The table can't tell them
from records that are missing; so they are noted beside it, as facts about the topic: a note that
is written twice, or whose batch runs again, says the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from headwater.storage.archive.contract import OWN_FOLDER
from headwater.storage.offset_ranges import OffsetRanges

_FILE = "holes.jsonl"


def note_holes(table: Path, partition: int, holes: OffsetRanges) -> None:
    """Add a note for each range; they are on disk when this returns."""
    folder = table / OWN_FOLDER
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps({"partition": partition, "first": first, "last": last})
        for first, last in holes.ranges()
    ]
    with (folder / _FILE).open("ab") as file:
        # Behind a line that a crash has cut off a new one begins.
        file.write("".join(f"\n{line}" for line in lines).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_holes(table: Path) -> Mapping[int, OffsetRanges]:
    """What was noted, by partition; a line that was cut off is passed over."""
    try:
        lines = (table / OWN_FOLDER / _FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    found: dict[int, list[tuple[int, int]]] = {}
    for partition, first, last in _readable(lines):
        found.setdefault(partition, []).append((first, last))
    return {partition: OffsetRanges.of(*ranges) for partition, ranges in found.items()}


def _readable(lines: Iterable[bytes]) -> Iterable[tuple[int, int, int]]:
    for line in lines:
        try:
            note = json.loads(line)
            yield int(note["partition"]), int(note["first"]), int(note["last"])
        except (ValueError, KeyError, TypeError):
            continue
