"""OpenLineage run events and the names of datasets, as plain values.

An event is a dictionary, ready to be written as JSON. Nothing here talks to anybody.
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
# A dataset as an event lists it: namespace, name, facets and, of one reading or writing,
# inputFacets or outputFacets.
Dataset = dict[str, Any]

State = Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]
ENDS: frozenset[State] = frozenset(("COMPLETE", "ABORT", "FAIL"))

# From the package's metadata: `headwater` itself reaches Spark.
VERSION = version("headwater")
PRODUCER = f"https://headwater.dev/{VERSION}"
SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
# Spark writes some file systems in other ways than OpenLineage names them.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}


class DatasetName(NamedTuple):
    """What a dataset is known by everywhere."""

    namespace: str
    name: str

    def dataset(self, facets: Facets | None = None) -> Dataset:
        """As an event lists it."""
        return {"namespace": self.namespace, "name": self.name, "facets": dict(facets or {})}


def name_of(dataset: Mapping[str, Any]) -> DatasetName:
    """The name of a dataset as an event lists it."""
    return DatasetName(dataset["namespace"], dataset["name"])


def kafka_topic(bootstrap_servers: str, topic: str) -> DatasetName:
    """A topic: `kafka://localhost:9092` and its name. Of several brokers the first names them."""
    return DatasetName(kafka_namespace(bootstrap_servers), topic)


def kafka_namespace(bootstrap_servers: str) -> str:
    """The namespace of a cluster's topics."""
    # A listener may be given with its protocol: PLAINTEXT://localhost:9092.
    first = bootstrap_servers.split(",")[0].strip().rpartition("//")[2]
    return f"kafka://{first}"


def file_location(uri: str) -> DatasetName:
    """Files, or a table that is known by its folder: `file` and its path, `s3://bucket` and key."""
    # As Hadoop reads it: `?` and `#` are letters like any other.
    found = _LOCATION.fullmatch(uri)
    scheme, authority, path = found.groups() if found else (None, None, uri)
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
    """One event of a run, at a moment (now, if none is given)."""
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
    """As events write it: UTC, with microseconds."""
    text = at.astimezone(UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")
