"""Makes a plan from a request: reads the archive, the topic and, where requested, the lineage.

Spark is started only if rows have to be read: for a time, a key or a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.errors import InputError, ReplayRefusedError, TopicNotFoundError
from headwater.kafka import RecordReader, partition_states, topic_id
from headwater.model import Address, Record
from headwater.replay.ancestry import inputs_made_by, inputs_of
from headwater.replay.coverage import NOT_YET, Extent, Resolved, SelectionGap, resolve
from headwater.replay.folder import ReplayFolder, all_replays
from headwater.replay.loop_guard import next_replay_count
from headwater.replay.manifest import DONE
from headwater.replay.plan import Plan, steps_for
from headwater.replay.request import Request
from headwater.replay.selection import Selection
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Returns the session, and starts Spark on the first call.
SessionFactory = Callable[[], "SparkSession"]
_MAX_GAPS_SHOWN = 5


@dataclass(frozen=True)
class PlannedReplay:
    """A plan, and what the user should know before it is executed."""

    plan: Plan
    # Files of the archive that are read.
    files: tuple[str, ...]
    archive_version: int
    # Offsets of the topic that are not archived yet, by selected partition.
    lag: Mapping[int, int] = field(default_factory=dict)
    # The replay that is already done, or that this request resumes.
    existing: ReplayFolder | None = None


def make_plan(request: Request, settings: Settings, sessions: SessionFactory) -> PlannedReplay:
    """Determine the selected records, and refuse a replay that would not be what was requested.

    Raises:
        ArchiveError: there is no archive, or it is damaged.
        ReplayRefusedError: records are missing, the target is the source, or the records have
            been replayed too often.
        InputError: nothing is selected, or the selection is not valid.
    """
    _refuse_source(request)
    archive = Archive.open(request.selection.topic, settings)
    unfinished = None if request.again else _unfinished(request, settings)
    if unfinished is not None:
        return _planned(unfinished.plan(), archive, {}, unfinished)
    extents = _extents(request.selection.topic, archive, settings)
    resolved = resolve(request.selection, extents, _lineage_inputs(request, settings))
    gaps = (*resolved.gaps, *_unarchived_in_window(request.selection, extents, settings))
    if gaps and not request.allow_gaps:
        raise _gaps_refused(gaps)
    plan = _plan(request, resolved, gaps, archive, settings, sessions)
    plan, existing = _attempt(plan, request.again, settings)
    if existing is None:
        max_replays = settings.replay.max_replays
        plan = plan.with_replay_count(next_replay_count(archive, plan.offsets, max_replays))
    lag = {p: extents[p].lag for p in plan.offsets if extents[p].lag}
    return _planned(plan, archive, lag, existing)


def _planned(
    plan: Plan, archive: Archive, lag: Mapping[int, int], existing: ReplayFolder | None
) -> PlannedReplay:
    return PlannedReplay(plan, archive.plan(plan.offsets).files, archive.version, lag, existing)


def _refuse_source(request: Request) -> None:
    if request.target == request.selection.topic and not request.force:
        raise ReplayRefusedError(
            f"the target is the source, {request.target!r}: replayed records would be archived, "
            "and read by jobs as new records",
            hint="choose another topic with --to, or override with --force",
            topic=request.target,
        )


def _unfinished(request: Request, settings: Settings) -> ReplayFolder | None:
    """The same request, interrupted: its plan is still valid, though the topic may have grown."""
    for folder in all_replays(settings):
        if folder.manifest_content() is None and folder.request() == request.digest:
            return folder
    return None


def _extents(topic: str, archive: Archive, settings: Settings) -> dict[int, Extent]:
    extents = {
        partition: Extent(coverage.covered, coverage.lost)
        for partition, coverage in archive.coverage().items()
    }
    try:
        # The offsets of a recreated topic belong to other records.
        same = topic_id(topic, settings.kafka) == archive.topic_id
        states = partition_states(topic, settings.kafka) if same else []
    except TopicNotFoundError:
        return extents
    for state in states:
        extent = extents.get(state.partition, Extent(OffsetRanges.of()))
        extents[state.partition] = replace(extent, first=state.first, end=state.end)
    return extents


def _lineage_inputs(request: Request, settings: Settings) -> dict[int, OffsetRanges] | None:
    """The inputs that are selected by lineage; with two such conditions, both must hold."""
    selection, topic = request.selection, request.selection.topic
    selected: list[dict[int, OffsetRanges]] = []
    if selection.inputs_of:
        allow_ranges = request.allow_ranges
        outputs = selection.inputs_of
        selected.append(inputs_of(outputs, topic, settings, allow_ranges=allow_ranges))
    if selection.made_by is not None:
        selected.append(
            inputs_made_by(
                selection.made_by,
                topic,
                settings,
                allow_gaps=request.allow_gaps,
                allow_ranges=request.allow_ranges,
            )
        )
    if not selected:
        return None
    inputs, *others = selected
    for other in others:
        both = {p: ranges & other[p] for p, ranges in inputs.items() if p in other}
        inputs = {p: ranges for p, ranges in both.items() if ranges}
    return inputs


def _unarchived_in_window(
    selection: Selection, extents: Mapping[int, Extent], settings: Settings
) -> list[SelectionGap]:
    """The partitions whose first unarchived record lies within the time window."""
    if selection.offsets is not None or (selection.since_ms, selection.until_ms) == (None, None):
        return []
    gaps = []
    with RecordReader(settings.kafka) as reader:
        for partition, extent in sorted(extents.items()):
            if not extent.lag or extent.end is None:
                continue
            offset = extent.end - extent.lag
            record = reader.fetch(Address(selection.topic, partition, offset))
            time_ms = record.timestamp_ms if isinstance(record, Record) else None
            if time_ms is None or selection.until_ms is None or time_ms < selection.until_ms:
                gaps.append(
                    SelectionGap(selection.topic, partition, offset, extent.end - 1, NOT_YET)
                )
    return gaps


def _plan(
    request: Request,
    resolved: Resolved,
    gaps: tuple[SelectionGap, ...],
    archive: Archive,
    settings: Settings,
    sessions: SessionFactory,
) -> Plan:
    selection = request.selection
    offsets, records = dict(resolved.offsets), dict[int, int]()
    filters = {name: value for name, value in selection.as_json().items() if value is not None}
    filters.pop("topic")
    if selection.filters_rows and offsets:
        offsets, records = _count(offsets, filters, request, archive, sessions)
    else:
        records = {p: archive.plan({p: ranges}).records for p, ranges in offsets.items()}
        offsets = {p: ranges for p, ranges in offsets.items() if records[p]}
        records = {p: number for p, number in records.items() if number}
    if not offsets:
        raise InputError(
            f"no archived record of {selection.topic!r} is selected",
            hint=f"`headwater archive status {selection.topic}` shows what is archived",
        )
    return Plan(
        transform=request.name,
        job_name=request.transform.job_name,
        job_version=request.job_version,
        topic=selection.topic,
        offsets=offsets,
        records=records,
        target=request.target,
        filters=filters,
        # Only a predicate uses the schema: without one, the id must not depend on it.
        fields=request.transform.fields if "where" in filters else {},
        gaps=gaps,
        skip_existing=request.skip_existing,
        delivery=request.delivery,
        # At least one record of each partition per step, so that no step is empty.
        steps=steps_for(sum(records.values()), max(settings.replay.step_records, len(offsets))),
    )


def _count(
    offsets: Mapping[int, OffsetRanges],
    filters: Mapping[str, object],
    request: Request,
    archive: Archive,
    sessions: SessionFactory,
) -> tuple[dict[int, OffsetRanges], dict[int, int]]:
    """Count the matching records, and narrow the offsets to the first and last of them: records
    that are archived later and do not match must not change the plan."""
    from headwater.replay.rows import ArchivedRows

    rows = ArchivedRows.open(sessions(), archive, filters, request.transform.fields)
    counts = rows.count(offsets)
    narrowed = {
        each.partition: offsets[each.partition] & OffsetRanges.of((each.first, each.last))
        for each in counts
    }
    return narrowed, {each.partition: each.records for each in counts}


def _attempt(plan: Plan, again: bool, settings: Settings) -> tuple[Plan, ReplayFolder | None]:
    """The first attempt that is not done or, unless `again`, the one that is done.

    An attempt that was undone does not count: the next one repeats it.
    """
    attempt = 1
    while True:
        candidate = plan.with_attempt(attempt)
        folder = ReplayFolder.of(candidate.replay_id, settings)
        if not folder.exists():
            return candidate, None
        manifest = folder.manifest()
        if manifest is None or (manifest.state == DONE and not again):
            return folder.plan(), folder
        attempt += 1


def _gaps_refused(gaps: tuple[SelectionGap, ...]) -> ReplayRefusedError:
    shown = "; ".join(map(str, gaps[:_MAX_GAPS_SHOWN]))
    more = f"; and {len(gaps) - _MAX_GAPS_SHOWN} more" if len(gaps) > _MAX_GAPS_SHOWN else ""
    hint = "--allow-gaps replays the rest and records the gaps in the manifest"
    if any(gap.reason == NOT_YET for gap in gaps):
        hint = f"wait until data_synchronization_job has archived them; {hint}"
    return ReplayRefusedError(
        f"the archive lacks selected records: {shown}{more}",
        hint=hint,
        gaps=[str(gap) for gap in gaps],
    )
