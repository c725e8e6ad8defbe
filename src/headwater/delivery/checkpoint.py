"""Spark's checkpoint of a query, read: how far it has come, and whether a batch was cut off.

Spark writes `offsets/N` before batch N and `commits/N` after it. When the newest offsets have
no commit, batch N was begun and will be run again, with exactly the same input.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.errors import CheckpointError

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest batch that was begun, and the newest that was committed."""

    begun: int
    committed: int

    @property
    def cut_off(self) -> int | None:
        """The batch that will be run again, if there is one."""
        return self.begun if self.begun > self.committed else None


def read_progress(checkpoint: Path) -> Progress:
    """How far the query of this checkpoint has come; a missing folder is a new query.

    Raises:
        CheckpointError: the files contradict each other, so that Spark would not start, or
            would start at another place than one thinks.
    """
    begun, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    if committed > begun:
        raise CheckpointError(
            f"{checkpoint}: batch {committed} is committed, but its offsets are not there; "
            f"the newest are of batch {begun}",
            hint="restore the folder `offsets` from a copy, or choose another --checkpoint "
            "and --starting-offsets",
            checkpoint=str(checkpoint),
        )
    if begun > committed + 1:
        raise CheckpointError(
            f"{checkpoint}: batch {begun} was begun, but {committed} is the newest commit",
            hint="restore the folder `commits` from a copy, or choose another --checkpoint "
            "and --starting-offsets",
            checkpoint=str(checkpoint),
        )
    for name in {begun, committed} - {NO_BATCH}:
        _check_offsets_file(checkpoint / "offsets" / str(name))
    return Progress(begun, committed)


def _newest(folder: Path) -> int:
    if not folder.is_dir():
        return NO_BATCH
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=NO_BATCH)


def _check_offsets_file(path: Path) -> None:
    # A version line, a line of metadata, and a line for each source.
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    if len(lines) < 3 or lines[0] != "v1" or not lines[1].endswith("}"):
        raise CheckpointError(
            f"{path} is damaged: {len(lines)} lines, not a version, metadata and offsets",
            hint="restore it from a copy, or choose another --checkpoint and --starting-offsets",
            file=str(path),
        )
