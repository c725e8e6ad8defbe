"""OpenLineage run events, the names of datasets, and what a streaming run has read and written, as
plain values.

An event is a dictionary that can be written as JSON. Spark's progress event is JSON, too: Kafka
sources report offsets, and Headwater's sink reports the offsets that it wrote as metrics
(`{"visits/0": "17,19,3"}`: first, last and count). This module does no I/O.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

Event = dict[str, Any]
Facet = Mapping[str, Any]
Facets = Mapping[str, Facet]
# A dataset as an event lists it: namespace, name, facets, and inputFacets or outputFacets.
Dataset = dict[str, Any]

State = Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]
ENDS: frozenset[State] = frozenset(("COMPLETE", "ABORT", "FAIL"))

# The version of the installed package.
VERSION = version("headwater")
PRODUCER = f"https://headwater.dev/{VERSION}"
SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
# Schemes that Spark uses -> OpenLineage's names for the same file systems.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}


class DatasetName(NamedTuple):
    """Identity of a dataset in OpenLineage."""

    namespace: str
    name: str

    def dataset(self, facets: Facets | None = None) -> Dataset:
        """The dataset as an event lists it."""
        return {"namespace": self.namespace, "name": self.name, "facets": dict(facets or {})}


def name_of(dataset: Mapping[str, Any]) -> DatasetName:
    """The name of a dataset as an event lists it."""
    return DatasetName(dataset["namespace"], dataset["name"])


def kafka_topic(bootstrap_servers: str, topic: str) -> DatasetName:
    """Name of a topic: namespace `kafka://localhost:9092` (of the cluster) and the topic."""
    return DatasetName(kafka_namespace(bootstrap_servers), topic)


def kafka_namespace(bootstrap_servers: str) -> str:
    """Namespace of the topics of a cluster: its first broker in alphabetical order, so that the
    order of the addresses does not matter."""
    return min(broker_namespaces(bootstrap_servers))


def broker_namespaces(bootstrap_servers: str) -> set[str]:
    """The namespaces that a cluster could have: one for each broker."""
    # An address may include its protocol: PLAINTEXT://localhost:9092.
    addresses = (each.strip().rpartition("//")[2] for each in bootstrap_servers.split(","))
    return {f"kafka://{each}" for each in addresses if each} or {"kafka://"}


def with_cluster_namespace(event: Event, bootstrap_servers: str, namespace: str | None) -> Event:
    """The event with one namespace for the topics of these brokers.

    Spark's listener names a topic by the first address of the reader or writer, in any order.

    Args:
        namespace: chosen by the user; default: `kafka_namespace`.
    """
    chosen = namespace or kafka_namespace(bootstrap_servers)
    others = broker_namespaces(bootstrap_servers) - {chosen}
    return _replaced(event, others, chosen) if others else event


def _replaced(value: Any, old: set[str], new: str) -> Any:
    if isinstance(value, str):
        return new if value in old else value
    if isinstance(value, Mapping):
        return {key: _replaced(each, old, new) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(each, old, new) for each in value]
    return value


def file_location(uri: str) -> DatasetName:
    """Name of files, or of a table by its folder: `file` and path, or `s3://bucket` and key."""
    # Hadoop treats `?` and `#` as ordinary characters.
    match = _LOCATION.fullmatch(uri)
    scheme, authority, path = match.groups() if match else (None, None, uri)
    scheme = (scheme or "").lower()
    scheme = _SCHEMES.get(scheme, scheme)
    path = path.rstrip("/") or "/"
    if scheme in ("", "file"):
        return DatasetName("file", path)
    if scheme in ("s3", "gs"):
        path = path.strip("/") or "/"
    return DatasetName(f"{scheme}://{authority or ''}", path)


def run_event(
    state: State,
    run_id: str,
    job_namespace: str,
    job_name: str,
    inputs: Sequence[Dataset] = (),
    outputs: Sequence[Dataset] = (),
    run_facets: Facets | None = None,
    job_facets: Facets | None = None,
    event_time: datetime | None = None,
    producer: str = PRODUCER,
) -> Event:
    """One event of a run. `event_time` defaults to now."""
    return {
        "eventType": state,
        "eventTime": to_rfc3339(event_time or datetime.now(UTC)),
        "run": {"runId": run_id, "facets": dict(run_facets or {})},
        "job": {"namespace": job_namespace, "name": job_name, "facets": dict(job_facets or {})},
        "inputs": list(inputs),
        "outputs": list(outputs),
        "producer": producer,
        "schemaURL": SCHEMA_URL,
    }


def to_rfc3339(at: datetime) -> str:
    """UTC with microseconds, as in events."""
    text = at.astimezone(UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


# (topic, partition) -> first and last offset, both inclusive.
Ranges = dict[tuple[str, int], tuple[int, int]]

# First offset that a query read, by topic and partition.
Started = Callable[[], Mapping[str, Mapping[int, int]]]

# Name of the observed metrics of queries whose sink does not count rows: `rows`, and `dead_letter`
# for dead letters.
OBSERVED = "headwater_rows"
# Sink metrics: rows without parents, and headers that exceeded the limits.
WITHOUT_PARENTS = "without-parents"
DROPPED_HEADERS = "dropped-headers"


@dataclass(frozen=True)
class Roles:
    """Special topics of a query; every other topic that it writes is a plain output."""

    # Not reported: heartbeats of the query.
    hidden: frozenset[str] = frozenset()
    dead_letters: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    # Records with additional parents.
    parents: tuple[str, ...] = ()
    # Whether all rows carry lineage, except those that the sink counts as without parents.
    with_lineage: bool = False


@dataclass
class StreamProgress:
    """Progress of one run. Counts are totals; ranges are those since the last `take_ranges`."""

    roles: Roles = field(default_factory=Roles)
    # Spark does not report the start offsets of a query's first batch.
    started: Started = dict
    batch: int = 0
    batches: int = 0
    rows_in: Counter[str] = field(default_factory=Counter)
    rows_out: Counter[str] = field(default_factory=Counter)
    rows_without_parents: int = 0
    dropped_headers: int = 0
    dropped_late: int = 0
    lag: int | None = None
    _rows_read: int = 0
    _topics_since: set[str] = field(default_factory=set)
    _rows_written: int | None = None
    _rows_observed: int | None = None
    _read: Ranges = field(default_factory=dict)
    _written: Ranges = field(default_factory=dict)

    def add(self, progress: Mapping[str, Any]) -> None:
        """Add a completed micro-batch."""
        self.batch = progress["batchId"]
        self.batches += 1
        lags = [self._add_source(source) for source in progress.get("sources", ())]
        known = [lag for lag in lags if lag is not None]
        self.lag = sum(known) if known else self.lag
        self._add_sink(progress)
        for operator in progress.get("stateOperators", ()):
            self.dropped_late += operator.get("numRowsDroppedByWatermark") or 0

    @property
    def topics_read(self) -> set[str]:
        return set(self.rows_in)

    @property
    def topics_written(self) -> set[str]:
        return set(self.rows_out)

    def take_ranges(self) -> tuple[Ranges, Ranges]:
        """Ranges read and written since the last call."""
        read, written = self._read, self._written
        self._read, self._written = {}, {}
        return read, written

    def take_topics(self) -> set[str]:
        """Topics to which records were written since the last call."""
        topics, self._topics_since = self._topics_since, set()
        return topics

    def counts(self) -> dict[str, int]:
        """Fields of the facet `headwater_progress`; unknown values are omitted."""
        roles, out = self.roles, self.rows_out
        special = {*roles.dead_letters, *roles.late, *roles.parents}
        counts = {"rowsIn": self._rows_read}
        written = self._rows_written
        if self._rows_observed is not None:
            written = self._rows_observed
        elif out:
            written = sum(count for topic, count in out.items() if topic not in special)
        if written is not None:
            counts["rowsOut"] = written
            if roles.with_lineage:
                counts["rowsWithLineage"] = max(0, written - self.rows_without_parents)
        if roles.dead_letters:
            counts["deadLettered"] = sum(out[topic] for topic in roles.dead_letters)
        counts["lateRows"] = self.dropped_late + sum(out[topic] for topic in roles.late)
        if self.dropped_headers:
            counts["droppedHeaders"] = self.dropped_headers
        if self.lag is not None:
            counts["lag"] = self.lag
        return counts

    def _add_source(self, source: Mapping[str, Any]) -> int | None:
        """Add the offsets of a source; returns its lag, if known."""
        end = _offsets(source.get("endOffset"))
        begin = _offsets(source.get("startOffset") or (self.started() if end else None))
        rows = source.get("numInputRows") or 0
        reported = {key: offset for key, offset in end.items() if key[0] not in self.roles.hidden}
        ranges: Ranges = {}
        # Without start offsets no range is reported, because it could be too long.
        for partition, after in reported.items() if begin else ():
            # A new partition is read from its first record.
            first = begin.get(partition, 0)
            if first < after:
                ranges[partition] = first, after - 1
                self.rows_in[partition[0]] += after - first
        # The smaller of both: transaction markers take offsets, and a batch that Spark evaluates
        # twice counts its rows twice.
        spanned = sum(last - first + 1 for first, last in ranges.values())
        self._rows_read += min(rows, spanned) if begin else rows
        _merge(self._read, ranges)
        latest = _offsets(source.get("latestOffset"))
        if not reported or not latest:
            return None
        return sum(max(0, latest.get(key, offset) - offset) for key, offset in reported.items())

    def _add_sink(self, progress: Mapping[str, Any]) -> None:
        sink = progress.get("sink") or {}
        metrics = sink.get("metrics") or {}
        self.rows_without_parents += int(metrics.get(WITHOUT_PARENTS, 0))
        self.dropped_headers += int(metrics.get(DROPPED_HEADERS, 0))
        for topic, partition, first, last, count in _written(metrics):
            self._add_rows(topic, count)
            if topic not in self.roles.hidden:
                _merge(self._written, {(topic, partition): (first, last)})
        rows = sink.get("numOutputRows")
        if isinstance(rows, int) and rows >= 0:
            self._rows_written = (self._rows_written or 0) + rows
        observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
        if isinstance(observed, Mapping):
            self._rows_observed = (self._rows_observed or 0) + int(observed.get("rows") or 0)
            for topic in self.roles.dead_letters[:1]:
                self._add_rows(topic, int(observed.get("dead_letter") or 0))

    def _add_rows(self, topic: str, count: int) -> None:
        self.rows_out[topic] += count
        if count > 0:
            self._topics_since.add(topic)


def _offsets(reported: Any) -> dict[tuple[str, int], int]:
    """Offsets of a Kafka source; empty for other sources."""
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in reported.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def _written(metrics: Mapping[str, str]) -> Iterator[tuple[str, int, int, int, int]]:
    for name, text in metrics.items():
        topic, slash, partition = name.rpartition("/")
        parts = text.split(",")
        if slash and len(parts) == 3:
            first, last, count = map(int, parts)
            yield topic, int(partition), first, last, count


def _merge(known: Ranges, added: Ranges) -> None:
    """Keep one range per partition: batches are contiguous."""
    for partition, (first, last) in added.items():
        before = known.get(partition, (first, last))
        known[partition] = min(first, before[0]), max(last, before[1])
