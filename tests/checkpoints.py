"""Writes checkpoints like those of Spark and Headwater."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

# Next offset by partition.
Offsets = Mapping[int, int]


def write_checkpoint(
    folder: Path,
    source: str,
    *,
    committed: Offsets,
    planned: Offsets | None = None,
    started: Offsets | None = None,
    outputs: tuple[str, ...] | None = None,
) -> Path:
    """Batch 7 is committed; batch 8 is started if `planned` is given."""
    for name in ("offsets", "commits", "sources/0", "headwater"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    first = started or dict.fromkeys(committed, 0)
    # Spark writes a zero byte before this version.
    (folder / "sources/0/0").write_text(f"\0v1\n{_line(source, first)}")
    _write_offsets(folder / "offsets/7", source, committed)
    (folder / "commits/7").write_text('v1\n{"nextBatchWatermarkMs":0}')
    if planned is not None:
        _write_offsets(folder / "offsets/8", source, planned)
    if outputs is not None:
        note = {"before_batch": 8, "ends": {topic: {"0": 0} for topic in outputs}}
        (folder / "headwater/tail.json").write_text(json.dumps({"runs": [], "notes": [note]}))
    return folder


def _write_offsets(path: Path, source: str, offsets: Offsets) -> None:
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle":"2"}}'
    path.write_text(f"v1\n{metadata}\n{_line(source, offsets)}")


def _line(source: str, offsets: Offsets) -> str:
    return json.dumps({source: {str(p): offset for p, offset in offsets.items()}})
