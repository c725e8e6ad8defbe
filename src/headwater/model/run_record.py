"""Which job a run belongs to. Records with a compact stamp have the id of their run only.

In a compacted topic: the key is the run id, the value JSON with `job`, `version` and `started`, in
milliseconds since 1970. `RunRecords.java` writes the same. Any client with write access to the
topic can write any value, so decoding never raises.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

# Names and versions of jobs are short; a longer value is not genuine.
_MAX_BYTES = 8 * 1024
_MAX_TEXT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The job of a run, its version, and when the run started, if that is known."""

    job_name: str
    job_version: str | None
    started_ms: int | None = None


class RunLookup(Protocol):
    """Finds the job of a run."""

    def find(self, run_id: str) -> RunRecord | None: ...


def encode_run(run: RunRecord) -> bytes:
    """The value of the record."""
    content = {"job": run.job_name, "version": run.job_version, "started": run.started_ms}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def decode_run(value: bytes | None) -> RunRecord | None:
    """Decode a value; None if it is not that of a run."""
    if value is None or len(value) > _MAX_BYTES:
        return None
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not _is_text(content.get("job")):
        return None
    version, started = content.get("version"), content.get("started")
    return RunRecord(
        content["job"],
        version if _is_text(version) else None,
        started if type(started) is int else None,
    )


def _is_text(value: object) -> bool:
    """Whether it can be written as UTF-8: JSON may contain lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        return len(value.encode()) <= _MAX_TEXT_BYTES
    except UnicodeEncodeError:
        return False
