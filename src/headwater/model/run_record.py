"""Which job a run belongs to, and how exact the lineage of its rows is.

Records with a compact stamp have the id of their run only. In a compacted topic: the key is the run
id, the value JSON with `job`, `version` and `started`, in milliseconds since 1970, and optionally
`coverage`, `steps` and `reason`. `RunRecord.java` writes the same. Any client with write access to
the topic can write any value, so decoding never raises.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

# Names and versions of jobs are short; a longer value is not genuine.
_MAX_BYTES = 8 * 1024
_MAX_TEXT_BYTES = 1024
_MAX_STEPS = 20
KINDS = ("exact", "ranges", "unknown", "off")


@dataclass(frozen=True, slots=True)
class RunCoverage:
    """How exact the lineage of a run's rows is: one of `KINDS`, the steps because of which it is
    not exact, and why it is off."""

    kind: str
    steps: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The job of a run, its version, and, if known, its start and the coverage of its rows."""

    job_name: str
    job_version: str | None
    started_ms: int | None = None
    coverage: RunCoverage | None = None


class RunLookup(Protocol):
    """Finds the job of a run."""

    def find(self, run_id: str) -> RunRecord | None: ...


def encode_run(run: RunRecord) -> bytes:
    """The value of the record; without steps and reason if it would be too large."""
    value = _encode(run, details=True)
    return value if len(value) <= _MAX_BYTES else _encode(run, details=False)


def _encode(run: RunRecord, *, details: bool) -> bytes:
    content: dict[str, object] = {
        "job": run.job_name,
        "version": run.job_version,
        "started": run.started_ms,
    }
    if run.coverage is not None:
        content["coverage"] = run.coverage.kind
        if details and run.coverage.steps:
            content["steps"] = run.coverage.steps[:_MAX_STEPS]
        if details and run.coverage.reason is not None:
            content["reason"] = run.coverage.reason
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
        _coverage(content),
    )


def _coverage(content: dict[str, object]) -> RunCoverage | None:
    kind, steps, reason = content.get("coverage"), content.get("steps"), content.get("reason")
    if not isinstance(kind, str) or kind not in KINDS:
        return None
    texts = steps[:_MAX_STEPS] if isinstance(steps, list) else []
    return RunCoverage(
        kind,
        tuple(text for text in texts if _is_text(text)),
        reason if isinstance(reason, str) and _is_text(reason) else None,
    )


def _is_text(value: object) -> bool:
    """Whether it can be written as UTF-8: JSON may contain lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        return len(value.encode()) <= _MAX_TEXT_BYTES
    except UnicodeEncodeError:
        return False
