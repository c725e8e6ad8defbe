"""Numbered records: what was written is known exactly, so what arrived can be judged exactly.

    ledger = Ledger("visits", settings, keys=8)
    ledger.write(10_000)
    … run the pipeline, break it, run it again …
    assert ledger.check("visits-decorated").perfect

Each record holds its key, a sequence number that counts up within the key, and a hash of its
payload. The report tells what was lost, what came twice, what came out of order and what was
changed on the way.
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

_EXAMPLES_KEPT = 5

# Finds key and number in an output record; None for one that is not of the ledger.
Identify = Callable[[Record], "Entry | None"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One numbered record. `intact` is false when its payload is not what was written."""

    key: str
    sequence: int
    intact: bool = True


@dataclass
class LedgerReport:
    """How an output compares with what was written."""

    expected: int
    found: int = 0
    lost: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    damaged: int = 0
    strangers: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def perfect(self) -> bool:
        """Everything once, unchanged, in order per key; and there was something to judge."""
        wrong = self.lost + self.duplicates + self.out_of_order + self.damaged + self.strangers
        return self.expected > 0 and wrong == 0


class Ledger:
    """Writes numbered records to a topic and judges the topics that are made from it."""

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
        """How many records were written so far."""
        return sum(self.written.values())

    def write(self, count: int) -> None:
        """Send `count` more records, the keys in turn; returns when all are acknowledged."""
        with RecordProducer(self._settings.kafka) as producer:
            for number in range(count):
                key = self._keys[number % len(self._keys)]
                value = _value(key, self.written[key], self._payload_bytes)
                # Counted first: a watch may see the record before `send` returns.
                self.written[key] += 1
                producer.send(self.topic, value, key.encode())

    def check(self, topic: str, identify: Identify | None = None) -> LedgerReport:
        """Read all of `topic` and compare it with what was written."""
        tally = _Tally(self.written, identify or entry_of)
        for record in read_topic(topic, self._settings.kafka, start=Position.EARLIEST):
            tally.take(record)
        return tally.report()

    def watch(self, topic: str, identify: Identify | None = None) -> LedgerWatch:
        """Judge `topic` while it grows: `with ledger.watch(topic) as watch: …`."""
        return LedgerWatch(topic, self._settings, _Tally(self.written, identify or entry_of))


class LedgerWatch:
    """Follows a topic in a thread; duplicates and disorder are seen while the fault lasts."""

    def __init__(self, topic: str, settings: Settings, tally: _Tally) -> None:
        self._topic = topic
        self._settings = settings
        self._tally = tally
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="ledger-watch", daemon=True)
        self._error: BaseException | None = None

    def report(self) -> LedgerReport:
        """How it stands now; records on their way count as lost until they arrive."""
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
                self._tally.take(record)
        except BaseException as error:  # told by report(), in the test's own thread
            self._error = error


class _Tally:
    """Counts as records come by."""

    def __init__(self, written: dict[str, int], identify: Identify) -> None:
        self._written = written
        self._identify = identify
        self._seen: dict[str, set[int]] = {}
        self._newest: dict[str, int] = {}
        self._report = LedgerReport(expected=0)
        self._lock = threading.Lock()

    def take(self, record: Record) -> None:
        entry = self._identify(record)
        with self._lock:
            if entry is None or entry.sequence >= self._written.get(entry.key, 0):
                self._note("strangers", record)
                return
            seen = self._seen.setdefault(entry.key, set())
            if entry.sequence in seen:
                self._note("duplicates", record)
            elif entry.sequence < self._newest.get(entry.key, -1):
                self._note("out_of_order", record)
            seen.add(entry.sequence)
            self._newest[entry.key] = max(self._newest.get(entry.key, -1), entry.sequence)
            if not entry.intact:
                self._note("damaged", record)

    def report(self) -> LedgerReport:
        with self._lock:
            report = self._report
            report.expected = sum(self._written.values())
            report.found = sum(len(seen) for seen in self._seen.values())
            report.lost = report.expected - report.found
            return LedgerReport(**{**vars(report), "examples": list(report.examples)})

    def _note(self, what: str, record: Record) -> None:
        setattr(self._report, what, getattr(self._report, what) + 1)
        if len(self._report.examples) < _EXAMPLES_KEPT:
            self._report.examples.append(f"{what}: {record.address}")


def entry_of(record: Record) -> Entry | None:
    """The entry of a record whose value passed through unchanged."""
    try:
        content = json.loads(record.value or b"")
        key, sequence, payload = content["key"], int(content["sequence"]), content["payload"]
        intact = content["sha256"] == _hash((key, str(sequence), payload))
    except (ValueError, KeyError, TypeError):
        return None
    return Entry(key, sequence, intact and record.key == key.encode())


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
