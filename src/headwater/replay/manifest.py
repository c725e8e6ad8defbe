"""The manifest of a replay: what it did, with counts and checksums, signed if a key is set.

Pure. The signature is an HMAC with SHA-256 over all the rest, in one form of JSON only.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import InputError
from headwater.replay.digest import Checksum
from headwater.replay.plan import Plan, canonical

FORMAT_VERSION = 1
DONE, UNDONE = "done", "undone"
_ALGORITHM = "HMAC-SHA256"


@dataclass
class StepResult:
    """What a step did: what it read, what came of it, what it had to write and wrote."""

    read: Checksum = field(default_factory=Checksum)
    outputs: Checksum = field(default_factory=Checksum)
    # Of the outputs, those that go to the dead letter.
    dead_letters: int = 0
    # What the target had already with the same content; none of the outputs.
    skipped: int = 0
    # Outputs that an earlier start of this step had written.
    found: int = 0

    def merge(self, other: StepResult) -> None:
        self.read.merge(other.read)
        self.outputs.merge(other.outputs)
        self.dead_letters += other.dead_letters
        self.skipped += other.skipped
        self.found += other.found

    def as_json(self) -> dict[str, Any]:
        return {
            "read": self.read.records,
            "read_checksum": str(self.read),
            "written": self.outputs.records,
            "written_checksum": str(self.outputs),
            "dead_letters": self.dead_letters,
            "skipped": self.skipped,
            "found_after_interruption": self.found,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StepResult:
        return cls(
            Checksum.parse(content["read"], content["read_checksum"]),
            Checksum.parse(content["written"], content["written_checksum"]),
            content["dead_letters"],
            content["skipped"],
            content["found_after_interruption"],
        )


@dataclass(frozen=True)
class Manifest:
    """Evidence of a replay. Times are for people; nothing is derived from them."""

    plan: Plan
    run_id: str
    result: StepResult
    began: str
    ended: str
    # The version of the archive's table, and the ends of the target's partitions around it.
    archive_version: int | None = None
    ends_before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ends_after: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    state: str = DONE
    # What was taken back.
    undone_rows: int | None = None

    def as_json(self, key: str | None = None) -> dict[str, Any]:
        """The manifest as it is kept; with a key, signed."""
        content: dict[str, Any] = {
            "form": FORMAT_VERSION,
            "replay_id": self.plan.replay_id,
            "state": self.state,
            "run_id": self.run_id,
            "began": self.began,
            "ended": self.ended,
            "archive_version": self.archive_version,
            "plan": self.plan.as_json(),
            "result": self.result.as_json(),
            "ends_before": self.ends_before,
            "ends_after": self.ends_after,
            "undone_rows": self.undone_rows,
        }
        if key is not None:
            content["signature"] = {"algorithm": _ALGORITHM, "value": _sign(content, key)}
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Manifest:
        """What `as_json` gave.

        Raises:
            InputError: it has another form.
        """
        try:
            return cls(
                Plan.from_json(content["plan"]),
                content["run_id"],
                StepResult.from_json(content["result"]),
                content["began"],
                content["ended"],
                content["archive_version"],
                content["ends_before"],
                content["ends_after"],
                content["state"],
                content["undone_rows"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a manifest of form {FORMAT_VERSION}: {error!r}") from None


def signature_doubt(content: Mapping[str, Any], key: str | None) -> str | None:
    """Why the signature proves nothing; None if it does, or none is asked for."""
    signature = content.get("signature")
    if signature is None:
        return None if key is None else "it is not signed, though a key is set"
    if key is None:
        return "it is signed, and no key is set to check it with"
    unsigned = {name: value for name, value in content.items() if name != "signature"}
    value = signature.get("value") if isinstance(signature, dict) else None
    if not isinstance(value, str) or signature.get("algorithm") != _ALGORITHM:
        return "its signature has another form"
    if not hmac.compare_digest(value.encode(), _sign(unsigned, key).encode()):
        return "its signature does not fit: it was changed, or signed with another key"
    return None


def _sign(content: Mapping[str, Any], key: str) -> str:
    return hmac.new(key.encode(), canonical(content).encode(), hashlib.sha256).hexdigest()
