"""`trace` that can also resolve ranges: which of their records a record was made from.

Lineage headers name ranges after a step that can't be followed row by row. The records of the
ranges are run through the transform of the job again, in parts, and the outputs are compared with
the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import ArchiveError, InputError, QueryFailedError, UnknownJobError
from headwater.kafka import RecordReader
from headwater.model import Address, Record
from headwater.model.progress import Progress, no_progress
from headwater.replay.parent_search import Found, Part, find_parents
from headwater.replay.transform import RowsFunction, Transform, load_transform
from headwater.settings import Settings, load
from headwater.tracing import ancestors
from headwater.tracing.ancestors import MAX_RECORDS, kafka_and_archives
from headwater.tracing.node import MAX_DEPTH, Resolution, ResolutionState, TraceNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def trace(
    address: Address | str,
    settings: Settings | None = None,
    *,
    reader: RecordReader | None = None,
    max_records: int = MAX_RECORDS,
    max_depth: int = MAX_DEPTH,
    values: bool = False,
    resolve: bool = False,
    transform: Transform | RowsFunction | str | None = None,
    spark: SparkSession | None = None,
    progress: Progress = no_progress,
) -> TraceNode:
    """The ancestry of a record, read from Kafka and the archives; starts Spark only to resolve.

    Invalid claims become nodes with the state `unverified`, records that no longer exist become
    `expired`; neither raises an error. Each record is read once.

    Args:
        address: the record, as `Address` or text such as `visits/0@17`.
        settings: default: those of the environment and `headwater.toml`.
        reader: an open reader to reuse; the first record of a topic takes longer than later ones.
        values: keep the records' values in the nodes.
        resolve: if the parents of the record are within ranges, run the records of these through
            the job's transform again. The result is in `resolution` of the node; parents that are
            found are in `parents`, too.
        transform: to resolve: the transform of the job that made the record, or its name as for
            `headwater replay`; default: that of the setting `replay.transforms`.
        spark: to resolve: a session to use; default: a new one.

    Raises:
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
        ArchiveError: an archive is damaged, or another table.
        NotInstalledError: a record may be in an archive, and the extra `index` is not installed.
        UnknownJobError: there is no transform for the job of the record.
    """
    settings = settings or load()
    if reader is None:
        with RecordReader(settings.kafka) as own:
            return trace(
                address,
                settings,
                reader=own,
                max_records=max_records,
                max_depth=max_depth,
                values=values,
                resolve=resolve,
                transform=transform,
                spark=spark,
                progress=progress,
            )

    def traced(record: Address | str, depth: int) -> TraceNode:
        return ancestors.trace(
            record,
            settings,
            reader=reader,
            max_records=max_records,
            max_depth=depth,
            values=values,
        )

    node = traced(address, max_depth)
    if not resolve or not (node.ranges or node.more_parents):
        return node
    record = _read_again(node.address, reader, settings)
    known = _transform_of(node.job_name, transform, settings.replay.transforms)
    resolution = _resolve(node, record, known, spark, settings, progress)
    found = [traced(parent, max_depth - 1) for parent in resolution.parents if max_depth]
    return replace(node, resolution=resolution, parents=(*node.parents, *found))


def _read_again(address: Address, reader: RecordReader, settings: Settings) -> Record:
    for _, source in kafka_and_archives(reader, settings):
        fetched = source.fetch(address)
        if isinstance(fetched, Record):
            return fetched
    raise InputError(f"{address} was deleted while it was traced")


def _transform_of(
    job: str | None,
    given: Transform | RowsFunction | str | None,
    registered: Mapping[str, str],
) -> Transform:
    if isinstance(given, Transform):
        return given
    if callable(given):
        return Transform(job or "", given)
    name = given or registered.get(job or "")
    if name is not None:
        return load_transform(name, {})
    unknown = (
        f"there is no transform of job {job!r}" if job else "the job that made it is not known"
    )
    raise UnknownJobError(
        f"the ranges can't be resolved: {unknown}",
        hint="name the transform with --transform, as `module:name` or `path/to/file.py:name`, or "
        "set HEADWATER_REPLAY__TRANSFORMS",
        job_name=job,
    )


def _resolve(
    node: TraceNode,
    output: Record,
    transform: Transform,
    spark: SparkSession | None,
    settings: Settings,
    progress: Progress,
) -> Resolution:
    if node.more_parents or node.parents or node.unlisted or node.truncated:
        return _not_resolved("it has, or may have, parents outside its ranges")
    # Imported late: tracing alone needs neither Spark nor the extra `index`.
    from headwater.replay.operation import LazySparkSession
    from headwater.replay.range_records import read_ranges

    limits = settings.replay
    try:
        tasks = read_ranges(node.ranges, settings, limits.max_resolved_records)
    except (InputError, ArchiveError) as error:
        return _not_resolved(str(error))
    records = [record for task in tasks for record in task]
    if not records:
        return _not_resolved("its ranges contain no records")
    session = spark or LazySparkSession(settings, progress)()
    from headwater.replay.trial_runs import SparkTrials

    trials = SparkTrials(
        session,
        transform,
        output,
        records,
        settings,
        max_runs=limits.max_resolve_runs,
        progress=progress,
    )
    try:
        found = find_parents(_parts(tasks), trials, limits.max_resolve_runs)
    except QueryFailedError as error:
        found = Found(reason=str(error))
    return replace(_resolution(found, records), records=len(records), runs=trials.runs)


def _parts(tasks: Sequence[Sequence[Record]]) -> list[Part]:
    parts, begin = [], 0
    for task in tasks:
        parts.append(tuple(range(begin, begin + len(task))))
        begin += len(task)
    return parts


def _resolution(found: Found, records: Sequence[Record]) -> Resolution:
    if found.reason is not None:
        return _not_resolved(found.reason)
    state = ResolutionState.RESOLVED if found.parents else ResolutionState.AMBIGUOUS
    return Resolution(
        state,
        tuple(records[number].address for number in found.parents),
        tuple(records[number].address for number in found.candidates),
        by_record=found.by_record,
    )


def _not_resolved(reason: str) -> Resolution:
    return Resolution(ResolutionState.NOT_RESOLVED, reason=reason)
