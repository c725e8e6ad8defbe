"""Which run of a checkpoint has begun and not told of its end.

The note lies beside the checkpoint. One that is there at a start is of a process that was killed:
its run is ended by the next.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from headwater.settings import Settings

_FILE = Path("headwater") / "run.json"
_FOLDER = "open-runs"


@dataclass(frozen=True)
class OpenRun:
    """A run whose end was not told."""

    run_id: str
    job_namespace: str
    job_name: str
    started_at: str


class OpenRunNote:
    """The note of one checkpoint."""

    def __init__(self, checkpoint: Path | str, settings: Settings) -> None:
        if isinstance(checkpoint, Path):
            self._path = checkpoint / _FILE
        else:
            # Beside a checkpoint on s3a:// there is no file of this machine's.
            name = hashlib.sha256(checkpoint.encode()).hexdigest()[:32]
            self._path = settings.spool_dir / _FOLDER / f"{name}.json"

    def read(self) -> OpenRun | None:
        """The run that was not ended; None if there is none, or if the note can't be read."""
        try:
            return OpenRun(**json.loads(self._path.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, run: OpenRun) -> None:
        """Without fsync: after a power cut a run may stay open, which costs nothing else."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._path.with_suffix(".tmp")
            unfinished.write_text(json.dumps(asdict(run)))
            os.replace(unfinished, self._path)
        except OSError:
            return

    def clear(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return
