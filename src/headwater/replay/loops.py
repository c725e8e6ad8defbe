"""The loop guard: records that were replayed, and came back, are not replayed for ever.

Told from the header that every replay puts on its records, in the archive's files and without
Spark: a topic whose records have no headers costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from headwater.errors import ReplayRefusedError
from headwater.replay.headers import REPLAY_COUNT
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

_COLUMNS = ("partition", "offset", "headers")
_MAX_DIGITS = 9


def next_count(archive: Archive, offsets: Mapping[int, OffsetRanges], settings: Settings) -> int:
    """How often these records will have been replayed, if they are now.

    Raises:
        ReplayRefusedError: they have been as often as is allowed.
    """
    before = most_replayed(archive, offsets)
    most = settings.replay.max_replays
    if before >= most:
        raise ReplayRefusedError(
            f"some of these records have been replayed {before} times already: a replay seems to "
            "feed itself",
            hint=f"HEADWATER_REPLAY__MAX_REPLAYS is {most}; look where {archive.topic!r} gets its "
            "records from",
            topic=archive.topic,
        )
    return before + 1


def most_replayed(archive: Archive, offsets: Mapping[int, OffsetRanges]) -> int:
    """The greatest count in the headers of these records; 0 if none has one."""
    most = 0
    for file in archive.files:
        if not any(file.may_hold_any(partition, of) for partition, of in offsets.items()):
            continue
        try:
            for group in range(file.row_groups):
                most = max(most, _most(file.read(group, _COLUMNS), offsets))
        finally:
            file.close()
    return most


def _most(rows: object, offsets: Mapping[int, OffsetRanges]) -> int:
    headers = rows["headers"].combine_chunks()  # type: ignore[index]
    if headers.null_count == len(headers):
        return 0
    entries = pc.list_flatten(headers)
    counted = np.asarray(pc.equal(pc.struct_field(entries, "key"), REPLAY_COUNT))
    if not counted.any():
        return 0
    at = np.asarray(pc.list_parent_indices(headers))[counted]
    values = pc.struct_field(entries, "value").filter(counted).to_pylist()
    partitions = np.asarray(rows["partition"])[at].tolist()  # type: ignore[index]
    places = np.asarray(rows["offset"])[at].tolist()  # type: ignore[index]
    return max(
        (
            _number(value)
            for value, partition, offset in zip(values, partitions, places, strict=True)
            if partition in offsets and offsets[partition].meets(offset, offset)
        ),
        default=0,
    )


def _number(value: bytes | None) -> int:
    # Whoever may write to the topic may write such a header.
    plain = value is not None and value.isdigit() and len(value) <= _MAX_DIGITS
    return int(value) if plain and value is not None else 0
