"""The loop guard: records that were replayed and came back are not replayed indefinitely.

Every replay adds a header with a count to its records. The counts are read from the archive's
files without Spark; a topic whose records have no headers costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from headwater.errors import ReplayRefusedError
from headwater.model.foreign_headers import REPLAY_COUNT
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

_COLUMNS = ("partition", "offset", "headers")
_MAX_DIGITS = 9


def next_replay_count(
    archive: Archive, offsets: Mapping[int, OffsetRanges], max_replays: int
) -> int:
    """How often these records will have been replayed after the next replay.

    Raises:
        ReplayRefusedError: they have been replayed `max_replays` times.
    """
    count = _highest_count(archive, offsets)
    if count >= max_replays:
        raise ReplayRefusedError(
            f"some of these records have been replayed {count} times already: a replay seems to "
            "feed itself",
            hint=f"HEADWATER_REPLAY__MAX_REPLAYS is {max_replays}; check which jobs write to "
            f"{archive.topic!r}",
            topic=archive.topic,
        )
    return count + 1


def _highest_count(archive: Archive, offsets: Mapping[int, OffsetRanges]) -> int:
    """The highest count in the headers of these records; 0 if none has the header."""
    highest = 0
    for file in archive.files:
        if not any(file.may_hold_any(partition, ranges) for partition, ranges in offsets.items()):
            continue
        try:
            for group in range(file.row_groups):
                highest = max(highest, _highest_in(file.read(group, _COLUMNS), offsets))
        finally:
            file.close()
    return highest


def _highest_in(rows: Any, offsets: Mapping[int, OffsetRanges]) -> int:
    headers = rows["headers"].combine_chunks()
    if headers.null_count == len(headers):
        return 0
    entries = pc.list_flatten(headers)
    is_count = np.asarray(pc.equal(pc.struct_field(entries, "key"), REPLAY_COUNT))
    if not is_count.any():
        return 0
    row_numbers = np.asarray(pc.list_parent_indices(headers))[is_count]
    values = pc.struct_field(entries, "value").filter(is_count).to_pylist()
    row_partitions = np.asarray(rows["partition"])[row_numbers].tolist()
    row_offsets = np.asarray(rows["offset"])[row_numbers].tolist()
    return max(
        (
            _parse_count(value)
            for value, partition, offset in zip(values, row_partitions, row_offsets, strict=True)
            if partition in offsets and offsets[partition].meets(offset, offset)
        ),
        default=0,
    )


def _parse_count(value: bytes | None) -> int:
    # Any producer of the topic may write such a header.
    if value is None or not value.isdigit() or len(value) > _MAX_DIGITS:
        return 0
    return int(value)
