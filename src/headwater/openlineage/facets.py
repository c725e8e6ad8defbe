"""Facets: the official ones that Headwater emits, its own, and those of users.

A facet is a dictionary with `_producer` and `_schemaURL`. `@lineage_facet("name")` makes one from
a function, which is asked when a run starts and when it ends:

    @lineage_facet("acme_release")
    def release(run):
        return {"ticket": "REL-17"}
"""

from __future__ import annotations

import json
import logging
import re
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

# Longer texts, such as the trace of a deep plan, are cut: an event is no log.
MAX_TEXT = 16_000


def official(name: str, version: str, /, **fields: Any) -> Facet:
    """A facet of OpenLineage's, such as `SchemaDatasetFacet`; fields that are None are left out."""
    url = f"{_OFFICIAL}/{version}/{name}.json#/$defs/{name}"
    return _facet(url, fields)


def own(name: str, version: str, /, **fields: Any) -> Facet:
    """A facet of Headwater's; its schema lies in `headwater/catalog/facets`."""
    return _facet(f"{_OWN}/{version}/{name}.json#/$defs/{name}", fields)


def custom(fields: Mapping[str, Any], on: On = "run") -> Facet:
    """A user's facet; one that names a schema of its own keeps it.

    Raises:
        InputError: it is no mapping, or holds what JSON has no word for; the whole event could not
            be written.
    """
    try:
        json.dumps(dict(fields), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a facet that can't be written as JSON: {error}",
            hint="give a mapping of names to texts, numbers, lists and mappings; a time as text",
        ) from None
    base = f"{_BASE}/{'RunFacet' if on == 'run' else 'JobFacet'}"
    return {"_producer": PRODUCER, "_schemaURL": base, **fields}


def _facet(url: str, fields: Mapping[str, Any]) -> Facet:
    given = {name: value for name, value in fields.items() if value is not None}
    return {"_producer": PRODUCER, "_schemaURL": url, **given}


def schema(fields: Sequence[Mapping[str, Any]]) -> Facet:
    """Fields with `name`, `type` and, of structs, `fields`."""
    return official("SchemaDatasetFacet", "1-2-0", fields=list(fields))


def column_lineage(
    fields: Mapping[str, Mapping[str, Any]], dataset: Sequence[Mapping[str, Any]] = ()
) -> Facet:
    """Which input fields each output field is made from; `dataset` has those that all depend on."""
    return official(
        "ColumnLineageDatasetFacet", "1-2-0", fields=dict(fields), dataset=list(dataset)
    )


def symlinks(identifiers: Iterable[tuple[str, str, str]]) -> Facet:
    """Other names of a dataset, as namespace, name and type (`TABLE`, `LOCATION`)."""
    listed = [{"namespace": ns, "name": name, "type": kind} for ns, name, kind in identifiers]
    return official("SymlinksDatasetFacet", "1-0-1", identifiers=listed)


def data_source(name: str, uri: str) -> Facet:
    return official("DatasourceDatasetFacet", "1-0-1", name=name, uri=uri)


def storage(layer: str, file_format: str | None = None) -> Facet:
    return official("StorageDatasetFacet", "1-0-1", storageLayer=layer, fileFormat=file_format)


def version(of_dataset: str) -> Facet:
    """Which version of a dataset it is, such as the id of an Iceberg table's snapshot."""
    return official("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=of_dataset)


def job_type(processing: Literal["STREAMING", "BATCH"], *, interval: float | None = None) -> Facet:
    """With an interval in seconds: events come at it, and each one stands for itself."""
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
    """Of a job; owners by name, such as `team:data-engineering`."""
    listed = [{"name": owner, "type": "OWNER"} for owner in owners]
    return official("OwnershipJobFacet", "1-0-1", owners=listed)


def documentation(description: str) -> Facet:
    """Of a job."""
    return official("DocumentationJobFacet", "1-1-0", description=description)


def source_code_location(url: str, path: str | None = None, version: str | None = None) -> Facet:
    return official(
        "SourceCodeLocationJobFacet", "1-1-0", type="git", url=url, path=path, version=version
    )


def tags(on: Literal["Job", "Run", "Dataset"], values: Mapping[str, str]) -> Facet:
    """Facts such as the environment, as key and value."""
    listed = [{"key": key, "value": value, "source": "USER"} for key, value in values.items()]
    return official(f"Tags{on}Facet", "1-0-0", tags=listed)


def error_message(message: str, trace: str | None = None, language: str = "PYTHON") -> Facet:
    """The text must be free of secrets: see `redaction`."""
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
    """Records that were read and written since the facet before; `batch` is the newest of them."""
    return own(
        "OffsetRangesRunFacet",
        "1-0-0",
        batch=batch,
        jobVersion=job_version,
        inputs=list(inputs),
        outputs=list(outputs),
    )


_makers: dict[tuple[On, str], FacetFunction] = {}


def lineage_facet(name: str, on: On = "run") -> Callable[[F], F]:
    """Make a function's answer a facet of all runs (or jobs) of this process.

    The function gets the run: `run_id`, `job_name`, `job_namespace`. What it raises is told once
    and does not hurt the job.

    Raises:
        InputError: the name can't be one of a facet.
    """
    check_name(name)

    def register(function: F) -> F:
        _makers[on, name] = function
        return function

    return register


def made(on: On, run: Any) -> dict[str, Facet]:
    """The facets that users' registered functions return for this run."""
    found: dict[str, Facet] = {}
    for (kind, name), function in list(_makers.items()):
        if kind != on:
            continue
        try:
            found[name] = custom(function(run), on)
        except Exception as error:
            _LOG.warning("facet %r could not be made: %s: %s", name, type(error).__name__, error)
    return found


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"not the name of a facet: {name!r}", hint="letters, digits and `_`, at most 100"
        )
