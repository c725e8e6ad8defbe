"""Input records of an interrupted batch for which the code of the job raises an error.

`headwater/failed-records.json` in the checkpoint has their addresses and errors. Written before the
batch is run without them, so that every later run of the same batch treats them alike.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import BadAddressError, CheckpointError
from headwater.model import Address
from headwater.model.local_files import write_durably
from headwater.storage.checkpoint import read_progress

FAILED_RECORDS_FILE = Path("headwater") / "failed-records.json"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class FailedRecord:
    """A record, and the class and message of the error that the code raised for it."""

    address: Address
    kind: str
    message: str


@dataclass(frozen=True)
class FailedRecords:
    """The failed records of a batch, as lists in the order in which they were found: a batch may
    fail again, for further records."""

    batch: int
    found: tuple[tuple[FailedRecord, ...], ...] = ()

    @property
    def records(self) -> tuple[FailedRecord, ...]:
        """All of them."""
        return tuple(record for records in self.found for record in records)

    def plus(self, records: Sequence[FailedRecord]) -> FailedRecords:
        return FailedRecords(self.batch, (*self.found, tuple(records)))


def read_failed_records(checkpoint: Path) -> FailedRecords | None:
    """The failed records of the interrupted batch; None if no batch is interrupted.

    Those of an earlier batch are in the dead letter topic, and are not used any more.

    Raises:
        CheckpointError: the file is damaged, or of a later version.
    """
    batch = read_progress(checkpoint).cut_off
    if batch is None:
        return None
    stored = _read(checkpoint / FAILED_RECORDS_FILE)
    return stored if stored is not None and stored.batch == batch else FailedRecords(batch)


def save_failed_records(checkpoint: Path, failed: FailedRecords) -> None:
    """Store them, instead of those of an earlier batch."""
    found = [[_as_json(record) for record in records] for records in failed.found]
    content = {"version": FORMAT_VERSION, "batch": failed.batch, "found": found}
    write_durably(checkpoint / FAILED_RECORDS_FILE, json.dumps(content, indent=2))


def _as_json(record: FailedRecord) -> dict[str, str]:
    return {"address": str(record.address), "kind": record.kind, "message": record.message}


def _read(file: Path) -> FailedRecords | None:
    try:
        content: Any = json.loads(file.read_text())
        if content["version"] != FORMAT_VERSION:
            raise CheckpointError(
                f"{file} has the format version {content['version']}, not {FORMAT_VERSION}",
                hint="a later version of Headwater wrote it: use that one",
                file=str(file),
            )
        found = tuple(tuple(_from_json(each) for each in records) for records in content["found"])
        return FailedRecords(int(content["batch"]), found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, BadAddressError) as error:
        raise _damaged(file, error) from None


def _from_json(content: Any) -> FailedRecord:
    return FailedRecord(
        Address.parse(content["address"]), str(content["kind"]), str(content["message"])
    )


def _damaged(file: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{file} is damaged: {error}",
        hint="restore it from a copy; or remove it, and its records are searched again, and may "
        "become dead letters twice",
        file=str(file),
    )
