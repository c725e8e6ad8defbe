"""Numbered records: what was written is known exactly, so the output can be checked exactly.

    ledger = Ledger("visits", settings, keys=8)
    ledger.write(10_000)
    … run the pipeline, break it, run it again …
    assert ledger.check("visits-decorated").perfect

Each record holds its key, a sequence number that counts up within the key, and a hash of its
payload. The report counts records that were lost, duplicated, reordered or changed.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from headwater.kafka import Position, RecordProducer, read_topic
from headwater.model import Record
from headwater.settings import Settings

_MAX_EXAMPLES = 5

# Extracts key and number of an output record; None if it is not from the ledger.
Identify = Callable[[Record], "LedgerEntry | None"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A numbered record. `intact` is false if its payload differs from what was written."""

    key: str
    sequence: int
    intact: bool = True


@dataclass
class LedgerReport:
    """An output compared with what was written."""

    expected: int
    found: int = 0
    lost: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    damaged: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def perfect(self) -> bool:
        """Everything once, unchanged, in order per key; and at least one record was written."""
        wrong = self.lost + self.duplicates + self.out_of_order + self.damaged + self.unknown
        return self.expected > 0 and wrong == 0


class Ledger:
    """Writes numbered records to a topic and checks the topics that are made from it."""

    def __init__(
        self, topic: str, settings: Settings, *, keys: int = 10, payload_bytes: int = 300
    ) -> None:
        self.topic = topic
        self._settings = settings
        self._keys = [f"key-{number}" for number in range(keys)]
        self._payload_bytes = payload_bytes
        self.written: dict[str, int] = dict.fromkeys(self._keys, 0)

    @property
    def total(self) -> int:
        """Number of records written so far."""
        return sum(self.written.values())

    def write(self, count: int) -> None:
        """Send `count` more records with alternating keys; returns when all are acknowledged."""
        with RecordProducer(self._settings.kafka) as producer:
            for number in range(count):
                key = self._keys[number % len(self._keys)]
                value = _value(key, self.written[key], self._payload_bytes)
                # Counted first: a watch may read the record before `send` returns.
                self.written[key] += 1
                producer.send(self.topic, value, key.encode())

    def check(self, topic: str, identify: Identify | None = None) -> LedgerReport:
        """Read all of `topic` and compare it with what was written."""
        tally = _Tally(self.written, identify or entry_of)
        for record in read_topic(topic, self._settings.kafka, start=Position.EARLIEST):
            tally.add(record)
        return tally.report()

    def watch(self, topic: str, identify: Identify | None = None) -> LedgerWatch:
        """Check `topic` while it grows: `with ledger.watch(topic) as watch: …`."""
        return LedgerWatch(topic, self._settings, _Tally(self.written, identify or entry_of))


class LedgerWatch:
    """Follows a topic in a thread, to detect duplicates and disorder during a fault."""

    def __init__(self, topic: str, settings: Settings, tally: _Tally) -> None:
        self._topic = topic
        self._settings = settings
        self._tally = tally
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="ledger-watch", daemon=True)
        self._error: BaseException | None = None

    def report(self) -> LedgerReport:
        """The current report; records in flight count as lost until they arrive."""
        if self._error is not None:
            raise self._error
        return self._tally.report()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(self._settings.kafka.timeout_seconds)

    def _follow(self) -> None:
        try:
            for record in read_topic(
                self._topic,
                self._settings.kafka,
                start=Position.EARLIEST,
                follow=True,
                stopped=self._stop.is_set,
            ):
                self._tally.add(record)
        except BaseException as error:  # raised by report(), in the test's thread
            self._error = error


class _Tally:
    """Counts over the records of a topic."""

    def __init__(self, written: dict[str, int], identify: Identify) -> None:
        self._written = written
        self._identify = identify
        self._seen: dict[str, set[int]] = {}
        self._newest: dict[str, int] = {}
        self._report = LedgerReport(expected=0)
        self._lock = threading.Lock()

    def add(self, record: Record) -> None:
        entry = self._identify(record)
        with self._lock:
            if entry is None or entry.sequence >= self._written.get(entry.key, 0):
                self._count("unknown", record)
                return
            seen = self._seen.setdefault(entry.key, set())
            if entry.sequence in seen:
                self._count("duplicates", record)
            elif entry.sequence < self._newest.get(entry.key, -1):
                self._count("out_of_order", record)
            seen.add(entry.sequence)
            self._newest[entry.key] = max(self._newest.get(entry.key, -1), entry.sequence)
            if not entry.intact:
                self._count("damaged", record)

    def report(self) -> LedgerReport:
        with self._lock:
            report = self._report
            report.expected = sum(self._written.values())
            report.found = sum(len(seen) for seen in self._seen.values())
            report.lost = report.expected - report.found
            return LedgerReport(**{**vars(report), "examples": list(report.examples)})

    def _count(self, what: str, record: Record) -> None:
        setattr(self._report, what, getattr(self._report, what) + 1)
        if len(self._report.examples) < _MAX_EXAMPLES:
            self._report.examples.append(f"{what}: {record.address}")


def entry_of(record: Record) -> LedgerEntry | None:
    """The entry of a record whose value is unchanged."""
    try:
        content = json.loads(record.value or b"")
        key, sequence, payload = content["key"], int(content["sequence"]), content["payload"]
        intact = content["sha256"] == _hash((key, str(sequence), payload))
    except (ValueError, KeyError, TypeError):
        return None
    return LedgerEntry(key, sequence, intact and record.key == key.encode())


def _value(key: str, sequence: int, size: int) -> bytes:
    payload = (f"{key}-{sequence}-" * (size // 8 + 1))[:size]
    content = {
        "key": key,
        "sequence": sequence,
        "payload": payload,
        "sha256": _hash((key, str(sequence), payload)),
    }
    return json.dumps(content).encode()


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
