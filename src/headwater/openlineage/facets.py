"""Facets: OpenLineage's standard facets, Headwater's own, and custom facets of users.

A facet is a dictionary with `_producer` and `_schemaURL`. `@lineage_facet("name")` registers a
function whose result becomes a facet; it is called when a run starts and when it ends:

    @lineage_facet("acme_release")
    def release(run):
        return {"ticket": "REL-17"}
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from headwater.errors import InputError
from headwater.openlineage.events import PRODUCER, to_rfc3339

_LOG = logging.getLogger(__name__)

Facet = dict[str, Any]
On = Literal["run", "job"]
FacetFunction = Callable[[Any], Mapping[str, Any]]
F = TypeVar("F", bound=FacetFunction)

_OFFICIAL = "https://openlineage.io/spec/facets"
_OWN = "https://headwater.dev/spec/facets"
_BASE = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")

# Longer texts, such as the stack trace of a deep plan, are cut: events are not logs.
MAX_TEXT = 16_000


def official(name: str, version: str, /, **fields: Any) -> Facet:
    """A standard OpenLineage facet, such as `SchemaDatasetFacet`. Omits fields that are None."""
    url = f"{_OFFICIAL}/{version}/{name}.json#/$defs/{name}"
    return _facet(url, fields)


def own(name: str, version: str, /, **fields: Any) -> Facet:
    """A facet of Headwater; its schema is in `headwater/catalog/facets`."""
    return _facet(f"{_OWN}/{version}/{name}.json#/$defs/{name}", fields)


def custom(fields: Mapping[str, Any], on: On = "run") -> Facet:
    """A custom facet. Keeps the `_schemaURL` of `fields`, if it has one.

    Raises:
        InputError: `fields` is not a mapping, or can't be written as JSON. Without this check the
            entire event would be dropped.
    """
    try:
        json.dumps(dict(fields), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"facet can't be written as JSON: {error}",
            hint="use a mapping of names to strings, numbers, lists and mappings; times as strings",
        ) from None
    base = f"{_BASE}/{'RunFacet' if on == 'run' else 'JobFacet'}"
    return {"_producer": PRODUCER, "_schemaURL": base, **fields}


def _facet(url: str, fields: Mapping[str, Any]) -> Facet:
    present = {name: value for name, value in fields.items() if value is not None}
    return {"_producer": PRODUCER, "_schemaURL": url, **present}


def schema(fields: Sequence[Mapping[str, Any]]) -> Facet:
    """Fields with `name`, `type` and, for structs, `fields`."""
    return official("SchemaDatasetFacet", "1-2-0", fields=list(fields))


def column_lineage(
    fields: Mapping[str, Mapping[str, Any]], dataset: Sequence[Mapping[str, Any]] = ()
) -> Facet:
    """Input fields of each output field; `dataset` lists those that all output fields depend on."""
    return official(
        "ColumnLineageDatasetFacet", "1-2-0", fields=dict(fields), dataset=list(dataset)
    )


def symlinks(identifiers: Iterable[tuple[str, str, str]]) -> Facet:
    """Alternative names of a dataset: namespace, name and type (`TABLE`, `LOCATION`)."""
    listed = [{"namespace": ns, "name": name, "type": kind} for ns, name, kind in identifiers]
    return official("SymlinksDatasetFacet", "1-0-1", identifiers=listed)


def data_source(name: str, uri: str) -> Facet:
    return official("DatasourceDatasetFacet", "1-0-1", name=name, uri=uri)


def storage(layer: str, file_format: str | None = None) -> Facet:
    return official("StorageDatasetFacet", "1-0-1", storageLayer=layer, fileFormat=file_format)


def version(dataset_version: str) -> Facet:
    """Version of a dataset, such as the snapshot id of an Iceberg table."""
    return official("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=dataset_version)


def job_type(processing: Literal["STREAMING", "BATCH"], *, interval: float | None = None) -> Facet:
    """`interval`: seconds between RUNNING events, each of which is self-contained."""
    pattern = None
    if interval is not None:
        pattern = {
            "eventTrigger": "PERIODIC",
            "eventContentMode": "ACCUMULATIVE",
            "windowDuration": max(1, round(interval)),
        }
    return official(
        "JobTypeJobFacet",
        "2-0-4",
        processingType=processing,
        integration="SPARK",
        jobType="QUERY" if processing == "STREAMING" else "JOB",
        emissionPattern=pattern,
    )


def ownership(owners: Iterable[str]) -> Facet:
    """Owners of a job, such as `team:data-engineering`."""
    listed = [{"name": owner, "type": "OWNER"} for owner in owners]
    return official("OwnershipJobFacet", "1-0-1", owners=listed)


def documentation(description: str) -> Facet:
    """Description of a job."""
    return official("DocumentationJobFacet", "1-1-0", description=description)


def source_code_location(url: str, path: str | None = None, version: str | None = None) -> Facet:
    return official(
        "SourceCodeLocationJobFacet", "1-1-0", type="git", url=url, path=path, version=version
    )


def tags(on: Literal["Job", "Run", "Dataset"], values: Mapping[str, str]) -> Facet:
    """Tags as key and value, such as the environment."""
    listed = [{"key": key, "value": value, "source": "USER"} for key, value in values.items()]
    return official(f"Tags{on}Facet", "1-0-0", tags=listed)


def error_message(message: str, trace: str | None = None, language: str = "PYTHON") -> Facet:
    """Texts must not contain secrets: see `openlineage.run.Redactor`."""
    return official(
        "ErrorMessageRunFacet",
        "1-0-1",
        message=message[:MAX_TEXT],
        programmingLanguage=language,
        stackTrace=trace and trace[:MAX_TEXT],
    )


def processing_engine(name: str, version: str, adapter: str) -> Facet:
    return official(
        "ProcessingEngineRunFacet",
        "1-1-1",
        name=name,
        version=version,
        openlineageAdapterVersion=adapter,
    )


def parent(run_id: str, namespace: str, name: str) -> Facet:
    run, job = {"runId": run_id}, {"namespace": namespace, "name": name}
    return official("ParentRunFacet", "1-2-0", run=run, job=job, root={"run": run, "job": job})


def nominal_time(start: datetime, end: datetime | None = None) -> Facet:
    ended = end and to_rfc3339(end)
    return official(
        "NominalTimeRunFacet", "1-0-1", nominalStartTime=to_rfc3339(start), nominalEndTime=ended
    )


def input_statistics(rows: int, size: int | None = None, files: int | None = None) -> Facet:
    name = "InputStatisticsInputDatasetFacet"
    return official(name, "1-0-0", rowCount=rows, size=size, fileCount=files)


def output_statistics(rows: int | None, size: int | None = None, files: int | None = None) -> Facet:
    name = "OutputStatisticsOutputDatasetFacet"
    return official(name, "1-0-2", rowCount=rows, size=size, fileCount=files)


def offset_ranges(
    batch: int,
    inputs: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, Any]],
    job_version: str | None = None,
) -> Facet:
    """Records read and written since the previous facet; `batch` is the latest batch."""
    return own(
        "OffsetRangesRunFacet",
        "1-0-0",
        batch=batch,
        jobVersion=job_version,
        inputs=list(inputs),
        outputs=list(outputs),
    )


_facet_functions: dict[tuple[On, str], FacetFunction] = {}


def lineage_facet(name: str, on: On = "run") -> Callable[[F], F]:
    """Register a function whose result becomes a facet of all runs (or jobs) of this process.

    The function receives the run: `run_id`, `job_name`, `job_namespace`. Its errors are logged and
    never propagate to the job.

    Raises:
        InputError: the name is not a valid facet name.
    """
    check_name(name)

    def register(function: F) -> F:
        _facet_functions[on, name] = function
        return function

    return register


def function_facets(on: On, run: Any) -> dict[str, Facet]:
    """Results of the registered functions for this run."""
    results: dict[str, Facet] = {}
    for (kind, name), function in list(_facet_functions.items()):
        if kind != on:
            continue
        try:
            results[name] = custom(function(run), on)
        except Exception as error:
            _LOG.warning("facet %r could not be created: %s: %s", name, type(error).__name__, error)
    return results


_job_facets: dict[str, dict[str, Mapping[str, Any]]] = {}
_job_facets_access = threading.Lock()


def register_job_facets(job_name: str, job_facets: Mapping[str, Mapping[str, Any]]) -> None:
    """Add these facets to all events of this job's runs that start later in this process."""
    with _job_facets_access:
        _job_facets[job_name] = {**_job_facets.get(job_name, {}), **job_facets}


def registered_job_facets(job_name: str) -> dict[str, Mapping[str, Any]]:
    with _job_facets_access:
        return dict(_job_facets.get(job_name, {}))


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"invalid facet name: {name!r}", hint="use letters, digits and `_`, at most 100"
        )
