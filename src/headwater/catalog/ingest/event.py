"""Validates an OpenLineage event: only what the catalog relies on.

Unknown facets are stored unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from headwater.catalog.identity import content_id, run_id_of
from headwater.catalog.ingest.checks import BadEventError, Checks
from headwater.catalog.ingest.json_text import canonical_bytes
from headwater.catalog.ingest.run_facets import (
    OffsetRange,
    Progress,
    read_offsets,
    read_progress,
)

Facets = dict[str, Any]


class EventKind(StrEnum):
    """The three kinds of OpenLineage events."""

    RUN = "RUN_EVENT"
    JOB = "JOB_EVENT"
    DATASET = "DATASET_EVENT"


_KINDS = {"RunEvent": EventKind.RUN, "JobEvent": EventKind.JOB, "DatasetEvent": EventKind.DATASET}
_EVENT_TYPES = frozenset({"START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"})
MAX_DATASETS = 10_000


@dataclass(frozen=True, slots=True)
class JobRef:
    """The job of an event."""

    namespace: str
    name: str
    facets: Facets


@dataclass(frozen=True, slots=True)
class Receipt:
    """When an event was received, and how far ahead of that its time may be."""

    at: datetime
    max_future: timedelta

    def effective(self, time: datetime) -> datetime:
        """The time that counts: a time too far in the future is that of the receipt."""
        return time if time - self.at <= self.max_future else self.at


@dataclass(frozen=True, slots=True)
class ParentRef:
    """The job that started this one, and its run if the facet has a run id."""

    namespace: str
    name: str
    run_id: UUID | None
    # The job or the run is in a namespace that the sender may not describe: only the reference to
    # it is stored.
    reference: bool = False


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """A dataset of an event; `io_facets` are its input or output facets."""

    namespace: str
    name: str
    facets: Facets
    io_facets: Facets
    fields: list[dict[str, Any]] | None
    symlinks: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Event:
    """A valid event. `key` is a hash of its content, independent of the order of its keys.

    `sent_at` is its `eventTime`; `at` is the time that counts (`Receipt.effective`).
    """

    key: UUID
    kind: EventKind
    sent_at: datetime
    at: datetime
    body: dict[str, Any]
    event_type: str | None = None
    run_id: UUID | None = None
    run_facets: Facets = field(default_factory=dict)
    job: JobRef | None = None
    parent: ParentRef | None = None
    inputs: list[DatasetRef] = field(default_factory=list)
    outputs: list[DatasetRef] = field(default_factory=list)
    ranges: list[OffsetRange] = field(default_factory=list)
    progress: Progress | None = None
    # The namespaces that the sender may describe; None: all. See `limit_event`.
    granted: frozenset[str] | None = None

    @property
    def namespace(self) -> str:
        """The namespace that an API key must be allowed to write to."""
        return self.job.namespace if self.job else self.outputs[0].namespace


def read_event(body: Any, receipt: Receipt | None = None) -> Event:
    """Validate an event.

    Args:
        receipt: limits how far in the future its time may be; None: no limit.

    Raises:
        BadEventError: names every invalid field.
    """
    if not isinstance(body, dict):
        raise BadEventError("body must be a JSON object, one event", status=400)
    checks = Checks()
    event = _read(body, receipt, checks)
    checks.raise_any()
    return event


def _read(body: dict[str, Any], receipt: Receipt | None, checks: Checks) -> Event:
    kind = _kind(body, checks)
    sent_at = checks.time(body.get("eventTime"), "eventTime")
    at = receipt.effective(sent_at) if receipt else sent_at
    _check_producer(body, checks)
    key = content_id(canonical_bytes(body))
    if kind is EventKind.DATASET:
        dataset = checks.object(body.get("dataset"), "dataset")
        outputs = [_dataset(dataset, "dataset", "outputFacets", checks)]
        return Event(key, kind, sent_at, at, body, outputs=outputs)
    job = _job(body, checks)
    inputs = _datasets(body, "inputs", "inputFacets", checks)
    outputs = _datasets(body, "outputs", "outputFacets", checks)
    if kind is EventKind.JOB:
        return Event(key, kind, sent_at, at, body, job=job, inputs=inputs, outputs=outputs)
    run = checks.object(body.get("run"), "run")
    facets = checks.facets(run.get("facets"), "run.facets")
    return Event(
        key,
        kind,
        sent_at,
        at,
        body,
        event_type=_event_type(body, checks),
        run_id=checks.uuid(run.get("runId"), "run.runId"),
        run_facets=facets,
        job=job,
        parent=_parent(parent_facet(facets), checks),
        inputs=inputs,
        outputs=outputs,
        ranges=read_offsets(facets.get("headwater_offsets"), checks),
        progress=read_progress(facets.get("headwater_progress"), at, checks),
    )


def _kind(body: dict[str, Any], checks: Checks) -> EventKind:
    # The last part of schemaURL names the kind; an event without schemaURL is a run event.
    url = body.get("schemaURL")
    if url is None:
        return EventKind.RUN
    if not isinstance(url, str) or any(character in url for character in " \t\r\n\0"):
        checks.fail("schemaURL must be a URL")
        return EventKind.RUN
    return _KINDS.get(url.rsplit("/", 1)[-1], EventKind.RUN)


def _event_type(body: dict[str, Any], checks: Checks) -> str | None:
    # OpenLineage does not require it: such an event describes a run and does not change its state.
    value = body.get("eventType")
    if value is None:
        return None
    if not isinstance(value, str) or value.upper() not in _EVENT_TYPES:
        checks.fail(f"eventType must be one of {', '.join(sorted(_EVENT_TYPES))}")
        return "OTHER"
    return value.upper()


def _check_producer(body: dict[str, Any], checks: Checks) -> None:
    producer = body.get("producer")
    if producer is None:
        checks.fail("producer must not be null")
    elif not isinstance(producer, str):
        checks.fail("producer must be a string")


def _job(body: dict[str, Any], checks: Checks) -> JobRef:
    job = checks.object(body.get("job"), "job")
    return JobRef(
        checks.name(job.get("namespace"), "job.namespace"),
        checks.name(job.get("name"), "job.name"),
        checks.facets(job.get("facets"), "job.facets"),
    )


def parent_facet(facets: Facets) -> Any:
    """The facet `parent`, which clients of 2022 call `parentRun`."""
    return facets.get("parent", facets.get("parentRun"))


def _parent(facet: Any, checks: Checks) -> ParentRef | None:
    # The event is accepted with an invalid parent, which is stored as a facet only.
    if not isinstance(facet, dict) or not isinstance(facet.get("job"), dict):
        return None
    namespace, name = facet["job"].get("namespace"), facet["job"].get("name")
    if not checks.is_name(namespace) or not checks.is_name(name):
        return None
    run = facet.get("run")
    run_id = run.get("runId") if isinstance(run, dict) else None
    parsed = checks.uuid_or_none(run_id)
    if parsed is None and checks.is_name(run_id):
        # Old versions of Airflow's integration send the name of the DAG run.
        parsed = run_id_of(namespace, name, run_id)
    return ParentRef(namespace, name, parsed)


def _datasets(body: dict[str, Any], key: str, io_key: str, checks: Checks) -> list[DatasetRef]:
    listed = checks.list(body.get(key), key)
    if len(listed) > MAX_DATASETS:
        checks.fail(f"{key} has {len(listed)} datasets, more than the maximum of {MAX_DATASETS}")
        return []
    return [
        _dataset(checks.object(each, f"{key}[{i}]"), f"{key}[{i}]", io_key, checks)
        for i, each in enumerate(listed)
    ]


def _dataset(each: dict[str, Any], path: str, io_key: str, checks: Checks) -> DatasetRef:
    facets = checks.facets(each.get("facets"), f"{path}.facets")
    return DatasetRef(
        checks.name(each.get("namespace"), f"{path}.namespace"),
        checks.name(each.get("name"), f"{path}.name"),
        facets,
        checks.facets(each.get(io_key), f"{path}.{io_key}"),
        _fields(facets.get("schema"), f"{path}.facets.schema", checks),
        _symlinks(facets.get("symlinks"), checks),
    )


def _fields(schema: Any, path: str, checks: Checks) -> list[dict[str, Any]] | None:
    if schema is None:
        return None
    fields = checks.list(checks.object(schema, path).get("fields"), f"{path}.fields")
    columns: dict[str, dict[str, Any]] = {}
    for i, each in enumerate(fields):
        # Paths are only built for invalid columns: there may be thousands of valid ones.
        if not isinstance(each, dict) or not checks.is_name(each.get("name")):
            one = checks.object(each, f"{path}.fields[{i}]")
            checks.name(one.get("name"), f"{path}.fields[{i}].name")
            continue
        kind, description = each.get("type"), each.get("description")
        columns[each["name"]] = {
            "name": each["name"],
            "type": kind if isinstance(kind, str) else None,
            "description": description if isinstance(description, str) else None,
        }
    return list(columns.values())


def _symlinks(facet: Any, checks: Checks) -> list[tuple[str, str]]:
    identifiers = facet.get("identifiers") if isinstance(facet, dict) else None
    if not isinstance(identifiers, list):
        return []
    return [
        (each["namespace"], each["name"])
        for each in identifiers
        if isinstance(each, dict)
        and checks.is_name(each.get("namespace"))
        and checks.is_name(each.get("name"))
    ]
