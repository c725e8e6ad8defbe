"""The manifest of a replay: what it did, with counts and checksums, signed if a key is set.

Pure. The signature is an HMAC with SHA-256 over everything else, as canonical JSON.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import InputError
from headwater.replay.plan import Plan, canonical

FORMAT_VERSION = 1
DONE, UNDONE = "done", "undone"
# In checksums, for results that were made from ranges of inputs.
NO_IDENTITY = ""
_ALGORITHM = "HMAC-SHA256"
_CHECKSUM_BYTES = 8


@dataclass
class Checksum:
    """A checksum of many records that does not depend on their order.

    Each record has a SHA-256 of its identity, key and value; the checksum is the exclusive or of
    their first 64 bits. With the number of records it reveals lost, duplicated and changed
    records. `identities` computes the same in Spark.
    """

    records: int = 0
    value: int = 0

    def add(self, identity: str, key: bytes | None, value: bytes | None) -> None:
        """Add a record."""
        digest = hashlib.sha256(_record_bytes(identity, key, value)).digest()
        self.merge(Checksum(1, int.from_bytes(digest[:_CHECKSUM_BYTES], "big")))

    def merge(self, other: Checksum) -> None:
        """Add the records of another checksum."""
        self.records += other.records
        self.value ^= other.value

    def __str__(self) -> str:
        return f"{self.value:0{2 * _CHECKSUM_BYTES}x}"

    @classmethod
    def parse(cls, records: int, text: str) -> Checksum:
        return cls(records, int(text, 16))


def _record_bytes(identity: str, key: bytes | None, value: bytes | None) -> bytes:
    """What is hashed: lengths first, so that different records never have the same bytes."""
    lengths = ("-" if part is None else str(len(part)) for part in (key, value))
    prefix = "\0".join((identity, *lengths, ""))
    return prefix.encode() + (key or b"") + (value or b"")


@dataclass
class StepResult:
    """What a step read and wrote."""

    read: Checksum = field(default_factory=Checksum)
    outputs: Checksum = field(default_factory=Checksum)
    # Outputs that go to the dead letter topic.
    dead_letters: int = 0
    # Results that the target already had with the same content; not among the outputs.
    skipped: int = 0
    # Outputs that an earlier, interrupted attempt of this step had written.
    already_written: int = 0

    def merge(self, other: StepResult) -> None:
        self.read.merge(other.read)
        self.outputs.merge(other.outputs)
        self.dead_letters += other.dead_letters
        self.skipped += other.skipped
        self.already_written += other.already_written

    def as_json(self) -> dict[str, Any]:
        return {
            "read": self.read.records,
            "read_checksum": str(self.read),
            "written": self.outputs.records,
            "written_checksum": str(self.outputs),
            "dead_letters": self.dead_letters,
            "skipped": self.skipped,
            "found_after_interruption": self.already_written,
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
    """Evidence of a replay. The times are informative: nothing is derived from them."""

    plan: Plan
    run_id: str
    result: StepResult
    began: str
    ended: str
    # The version of the archive's table, and the target's end offsets before and after.
    archive_version: int | None = None
    ends_before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ends_after: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    state: str = DONE
    # The number of rows that an undo deleted.
    undone_rows: int | None = None

    def as_json(self, key: str | None = None) -> dict[str, Any]:
        """The manifest as it is stored; with a key, signed."""
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
        """The inverse of `as_json`.

        Raises:
            InputError: another format.
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
            raise InputError(f"not a manifest of format {FORMAT_VERSION}: {error!r}") from None


def signature_problem(content: Mapping[str, Any], key: str | None) -> str | None:
    """Why the signature is not valid; None if it is valid, or if no key is set."""
    signature = content.get("signature")
    if signature is None:
        return None if key is None else "it is not signed, though a key is set"
    if key is None:
        return "it is signed, and no key is set to check it with"
    unsigned = {name: value for name, value in content.items() if name != "signature"}
    value = signature.get("value") if isinstance(signature, dict) else None
    if not isinstance(value, str) or signature.get("algorithm") != _ALGORITHM:
        return "its signature has an unknown format"
    if not hmac.compare_digest(value.encode(), _sign(unsigned, key).encode()):
        return "its signature does not match: it was changed, or signed with another key"
    return None


def _sign(content: Mapping[str, Any], key: str) -> str:
    return hmac.new(key.encode(), canonical(content).encode(), hashlib.sha256).hexdigest()
