"""Projects events to rows: the union of the rows of each event."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from headwater.catalog.identity import Name, content_id, dataset_id, dataset_version_id, job_id
from headwater.catalog.ingest.checks import Checks
from headwater.catalog.ingest.event import DatasetRef, Event, EventKind, JobRef
from headwater.catalog.ingest.json_text import json_text
from headwater.catalog.ingest.rows import (
    ColumnEdge,
    DatasetRow,
    FacetMap,
    JobRow,
    RangeRow,
    RunDatasetRow,
    RunRow,
    SourceRow,
    Span,
    VersionRow,
    facet_map,
    merge_into,
    microseconds,
)
from headwater.catalog.ingest.run_facets import OffsetRange, Progress
from headwater.catalog.ingest.writes import is_streaming, wrote_to

_NO_FIELDS = UUID(int=0)
# Facets that describe a version. Those of a reader do not replace the facets of the writer.
_VERSION_FACETS = frozenset({"schema", "version", "columnLineage", "lifecycleStateChange"})
_QUALITY_FACETS = frozenset({"dataQualityMetrics", "dataQualityAssertions"})
# Run, batch, whether it is an output, dataset, partition, first offset.
RangeKey = tuple[UUID, int, bool, UUID, int, int]


@dataclass(slots=True)
class Projection:
    """Rows by key. Built by `project`."""

    namespaces: dict[str, datetime] = field(default_factory=dict)
    sources: dict[str, SourceRow] = field(default_factory=dict)
    # Sources that limited keys named: they exist, and nothing else is known of them.
    source_names: dict[str, datetime] = field(default_factory=dict)
    datasets: dict[UUID, DatasetRow] = field(default_factory=dict)
    # Datasets that limited keys named for other namespaces.
    references: dict[UUID, DatasetRow] = field(default_factory=dict)
    symlinks: dict[tuple[UUID, UUID], datetime] = field(default_factory=dict)
    documents: dict[tuple[UUID, UUID], str] = field(default_factory=dict)
    versions: dict[UUID, VersionRow] = field(default_factory=dict)
    jobs: dict[UUID, JobRow] = field(default_factory=dict)
    runs: dict[UUID, RunRow] = field(default_factory=dict)
    run_datasets: dict[tuple[UUID, UUID, bool], RunDatasetRow] = field(default_factory=dict)
    edges: dict[tuple[UUID, UUID, bool], Span] = field(default_factory=dict)
    column_sets: dict[tuple[UUID, UUID, UUID], Span] = field(default_factory=dict)
    column_edges: dict[tuple[UUID, UUID], list[ColumnEdge]] = field(default_factory=dict)
    ranges: dict[RangeKey, RangeRow] = field(default_factory=dict)
    progress: dict[UUID, Progress] = field(default_factory=dict)


def project(
    events: Iterable[Event], known_columns: Container[tuple[UUID, UUID]] = ()
) -> Projection:
    """The rows of all events; the order of events does not matter.

    Args:
        known_columns: (dataset, facet hash) whose column edges are stored already; they are
            omitted.
    """
    rows = Projection()
    for event in events:
        _Adder(rows, event, known_columns).add()
    return rows


class _Adder:
    """Adds one event to the rows."""

    def __init__(
        self, rows: Projection, event: Event, known_columns: Container[tuple[UUID, UUID]]
    ) -> None:
        self.rows, self.event, self.at = rows, event, event.at
        self.known_columns = known_columns
        self.run = event.run_id
        self.job: UUID | None = None

    def add(self) -> None:
        event = self.event
        if event.job is not None:
            self.job = self._add_job(event.job)
        if self.run is not None and self.job is not None:
            self._add_run(self.run, self.job)
        for dataset in event.inputs:
            self._add_dataset(dataset, output=False)
        for dataset in event.outputs:
            self._add_dataset(dataset, output=True)
        for each in event.ranges:
            self._add_range(each)
        if event.progress is not None and self.run is not None:
            self.rows.progress.setdefault(self.run, Progress()).add(event.progress)

    def _add_range(self, each: OffsetRange) -> None:
        assert self.run is not None  # noqa: S101 - only run events have ranges
        dataset, _ = self._dataset_row(each.namespace, each.topic)
        key = (self.run, each.batch, each.output, dataset, each.partition, each.first)
        row = self.rows.ranges.get(key)
        if row is None:
            row = RangeRow(each.topic, each.last, each.job_version, self.at)
            self.rows.ranges[key] = row
        row.add(each.last, each.job_version, self.at)

    def _describes(self, namespace: str) -> bool:
        return self.event.granted is None or namespace in self.event.granted

    def _add_namespace(self, name: str) -> None:
        known = self.rows.namespaces.get(name, self.at)
        self.rows.namespaces[name] = min(known, self.at)

    def _job_row(self, namespace: str, name: str) -> tuple[UUID, JobRow]:
        self._add_namespace(namespace)
        key = job_id(namespace, name)
        row = self.rows.jobs.get(key)
        if row is None:
            row = self.rows.jobs[key] = JobRow(namespace, name, Span(self.at, self.at))
        row.seen.add(self.at)
        return key, row

    def _add_job(self, job: JobRef) -> UUID:
        key, row = self._job_row(job.namespace, job.name)
        facets = facet_map(job.facets, self.at)
        merge_into(row.facets, facets)
        if self.event.kind is EventKind.JOB:
            merge_into(row.own_facets, facets)
        parent = self.event.parent
        if parent is not None and (parent.namespace, parent.name) != (job.namespace, job.name):
            parent_key = job_id(parent.namespace, parent.name)
            row.add_parent(parent_key, self.at)
            if not parent.reference:
                self._job_row(parent.namespace, parent.name)
                if parent.run_id is not None and parent.run_id != self.run:
                    row_of_parent = self._run_row(parent.run_id, parent_key, confirmed=False)
                    if self.event.event_type in ("START", "RUNNING"):
                        # A run that sends no START has started with its first child.
                        row_of_parent.add_running(self.at)
        return key

    def _run_row(self, run: UUID, job: UUID, *, confirmed: bool) -> RunRow:
        row = self.rows.runs.get(run)
        if row is None:
            row = self.rows.runs[run] = RunRow(job, self.at, confirmed, self.at)
        row.add_job(job, self.at, confirmed=confirmed)
        row.seen_at = min(row.seen_at, self.at)
        return row

    def _add_run(self, run: UUID, job: UUID) -> None:
        event = self.event
        row = self._run_row(run, job, confirmed=True)
        row.add_state(event.event_type, self.at)
        # A run ends with its parent: with a foreign one, the sender would learn when that ended.
        parent = event.parent.run_id if event.parent and not event.parent.reference else None
        if parent is not None:
            row.parent_run_id = max(row.parent_run_id or parent, parent)
        merge_into(row.facets, facet_map(event.run_facets, self.at))
        job_facets = event.job.facets if event.job else {}
        merge_into(row.job_facets, facet_map(job_facets, self.at))
        row.streaming |= is_streaming(event)

    def _add_dataset(self, dataset: DatasetRef, *, output: bool) -> None:
        key, row = self._dataset_row(dataset.namespace, dataset.name)
        version = None
        if self._describes(dataset.namespace):
            version = self._describe(key, row, dataset, output=output)
        if self.job is not None:
            self._add_edge(key, output=output)
        if self.run is not None:
            self._add_run_dataset(key, dataset, version, output=output)
        if output and self.job is not None:
            self._add_columns(key, dataset.facets.get("columnLineage"))

    def _describe(
        self, key: UUID, row: DatasetRow, dataset: DatasetRef, *, output: bool
    ) -> UUID | None:
        """Add the description of the dataset; returns its version."""
        self._add_source(row, dataset.facets.get("dataSource"))
        for alias in dataset.symlinks:
            alias_key, _ = self._dataset_row(*alias)
            if alias_key != key:
                known = self.rows.symlinks.get((alias_key, key), self.at)
                self.rows.symlinks[alias_key, key] = min(known, self.at)
        # Input facets, such as quality metrics, describe the dataset; output facets the run.
        bodies = dataset.facets if output else {**dataset.facets, **dataset.io_facets}
        facets = self._documents(key, bodies)
        version = self._add_version(key, dataset, facets, output=output)
        if version is None:
            merge_into(row.facets, facets)
        elif not output:
            kept = {name: each for name, each in facets.items() if name not in _VERSION_FACETS}
            merge_into(row.facets, kept)
        return version

    def _dataset_row(self, namespace: str, name: str) -> tuple[UUID, DatasetRow]:
        key = dataset_id(namespace, name)
        rows = self.rows.references
        if self._describes(namespace):
            self._add_namespace(namespace)
            rows = self.rows.datasets
        row = rows.get(key)
        if row is None:
            row = rows[key] = DatasetRow(namespace, name, Span(self.at, self.at))
        row.seen.add(self.at)
        return key, row

    def _add_source(self, row: DatasetRow, facet: Any) -> None:
        if not isinstance(facet, dict) or not Checks.is_name(facet.get("name")):
            return
        name, uri = facet["name"], facet.get("uri")
        url = uri if Checks.is_name(uri) else ""
        row.add_source(name, self.at)
        if self.event.granted is not None:
            # A source belongs to no namespace: a limited key can't set its address.
            self.rows.source_names.setdefault(name, self.at)
            return
        source = self.rows.sources.get(name)
        if source is None:
            self.rows.sources[name] = SourceRow(name, Span(self.at, self.at), url, self.at)
            return
        source.seen.add(self.at)
        if (source.url_at, source.url) < (self.at, url):
            source.url_at, source.url = self.at, url

    def _documents(self, key: UUID, facets: dict[str, Any]) -> FacetMap:
        """Dataset facets are large and repeated: each text is stored once, under its hash."""
        time = microseconds(self.at)
        return {
            name: (time, str(self._document(key, json_text(body)))) for name, body in facets.items()
        }

    def _document(self, key: UUID, text: str) -> UUID:
        digest = content_id(text.encode())
        self.rows.documents[key, digest] = text
        return digest

    def _add_version(
        self, key: UUID, dataset: DatasetRef, facets: FacetMap, *, output: bool
    ) -> UUID | None:
        written = output and self.run is not None
        if dataset.fields is None and not written and self.event.kind is not EventKind.DATASET:
            return None
        fields = None if dataset.fields is None else self._document(key, json_text(dataset.fields))
        change = dataset.facets.get("lifecycleStateChange") if output else None
        state = change.get("lifecycleStateChange") if isinstance(change, dict) else None
        lifecycle = state if Checks.is_name(state) else ""
        run = self.run if written else None
        version = dataset_version_id(key, fields or _NO_FIELDS, lifecycle, run)
        row = self.rows.versions.get(version)
        if row is None:
            span = Span(self.at, self.at)
            row = VersionRow(key, run, span, fields, lifecycle, read=not output)
            self.rows.versions[version] = row
        row.seen.add(self.at)
        if written and wrote_to(self.event, dataset):
            row.add_write(self.at)
        row.read &= not output
        merge_into(row.facets, facets)
        return version

    def _add_edge(self, key: UUID, *, output: bool) -> None:
        assert self.job is not None  # noqa: S101 - checked by the caller
        span = self.rows.edges.setdefault((self.job, key, output), Span(self.at, self.at))
        span.add(self.at)

    def _add_run_dataset(
        self, key: UUID, dataset: DatasetRef, version: UUID | None, *, output: bool
    ) -> None:
        assert self.run is not None  # noqa: S101 - checked by the caller
        row_key = (self.run, key, output)
        row = self.rows.run_datasets.setdefault(row_key, RunDatasetRow(self.at, described=False))
        row.at = max(row.at, self.at)
        row.described |= self._describes(dataset.namespace)
        if version is not None:
            row.add_version(version, self.at)
        facets = dataset.io_facets
        if not output:
            # Test results that stand among the other facets of an input.
            named = dataset.facets.items()
            facets = {**{name: each for name, each in named if name in _QUALITY_FACETS}, **facets}
        merge_into(row.facets, facet_map(facets, self.at))

    def _add_columns(self, key: UUID, facet: Any) -> None:
        fields = facet.get("fields") if isinstance(facet, dict) else None
        if not isinstance(fields, dict):
            return
        assert self.job is not None  # noqa: S101 - checked by the caller
        # The hash under which `_documents` stores the facet.
        digest = content_id(json_text(facet).encode())
        row_key = (key, self.job, digest)
        self.rows.column_sets.setdefault(row_key, Span(self.at, self.at)).add(self.at)
        inputs = {name: self._dataset_row(*name)[0] for name in _inputs_of(fields)}
        if (key, digest) not in self.rows.column_edges and (key, digest) not in self.known_columns:
            self.rows.column_edges[key, digest] = list(_column_edges(fields, inputs))


def _named_inputs(fields: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any], dict[str, Any]]]:
    """For each valid input of a column: the column name, its lineage and the input."""
    for name, lineage in fields.items():
        listed = lineage.get("inputFields") if isinstance(lineage, dict) else None
        if not Checks.is_name(name) or not isinstance(listed, list):
            continue
        for each in listed:
            if isinstance(each, dict) and all(
                Checks.is_name(each.get(part)) for part in ("namespace", "name", "field")
            ):
                yield name, lineage, each


def _inputs_of(fields: dict[str, Any]) -> set[Name]:
    return {(each["namespace"], each["name"]) for _, _, each in _named_inputs(fields)}


def _column_edges(fields: dict[str, Any], inputs: dict[Name, UUID]) -> Iterable[ColumnEdge]:
    seen: set[tuple[str, UUID, str]] = set()
    for name, lineage, each in _named_inputs(fields):
        source = inputs[each["namespace"], each["name"]]
        if (name, source, each["field"]) in seen:
            continue
        seen.add((name, source, each["field"]))
        transformations = each.get("transformations")
        yield ColumnEdge(
            name,
            source,
            each["field"],
            json_text(transformations if isinstance(transformations, list) else []),
            _text(lineage.get("transformationDescription")),
            _text(lineage.get("transformationType")),
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and "\0" not in value else None
