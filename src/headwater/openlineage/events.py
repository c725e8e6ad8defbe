"""OpenLineage run events and the names of datasets, as plain values.

An event is a dictionary that can be written as JSON. This module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
