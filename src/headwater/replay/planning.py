"""Makes a plan: looks into the archive, the topic and, if asked to, the lineage.

Spark is started only when rows have to be looked at: for a time, a key or a predicate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.errors import InputError, ReplayRefusedError, TopicNotFoundError
from headwater.kafka import RecordReader, partition_states, topic_id
from headwater.model import Address, Record
from headwater.replay.ancestry import inputs_made_by, inputs_of
from headwater.replay.coverage import NOT_YET, Extent, Gap, Resolved, resolve
from headwater.replay.folder import ReplayFolder, all_replays
from headwater.replay.loops import next_count
from headwater.replay.manifest import DONE
from headwater.replay.plan import Plan, canonical, steps_for
from headwater.replay.selection import Selection
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Starts Spark, or gives the session that runs.
Sessions = Callable[[], "SparkSession"]
_GAPS_TOLD = 5


@dataclass(frozen=True)
class Request:
    """A replay that somebody asked for."""

    name: str
    logic: Transform
    selection: Selection
    job_version: str
    # A topic, or `table:` and a folder.
    target: str
    allow_gaps: bool = False
    force: bool = False
    skip_existing: bool = False
    again: bool = False
    # `exactly-once` on one driver, `strict` on clusters too.
    delivery: str = "exactly-once"

    @property
    def digest(self) -> str:
        """The same for the same request, whatever the archive has become since."""
        asked = self.selection
        parts = {
            **asked.as_json(),
            "name": self.name,
            "job": [self.logic.job_name, self.job_version],
            "offsets": sorted((asked.offsets or {}).items()) if asked.offsets else None,
            "inputs_of": sorted(map(str, asked.inputs_of)),
            "made_by": str(asked.made_by),
            "target": self.target,
            "options": [self.allow_gaps, self.skip_existing],
        }
        return hashlib.sha256(canonical(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Planned:
    """A plan, and what somebody should know before it is run."""

    plan: Plan
    # Files of the archive that are read.
    files: tuple[str, ...]
    archive_version: int
    # Of the selected partitions: how far the archive is behind the topic.
    behind: Mapping[int, int] = field(default_factory=dict)
    # Begun before, and not done or done: it is gone on with, or there is nothing to do.
    known: ReplayFolder | None = None


def make_plan(request: Request, settings: Settings, sessions: Sessions) -> Planned:
    """Find out which records are meant, and refuse what would not be what was asked for.

    Raises:
        ArchiveError: there is no archive, or it is damaged.
        ReplayRefusedError: records are missing, the target is the source, or the records have
            been replayed too often.
        InputError: nothing is selected, or the selection makes no sense.
    """
    _refuse_source(request)
    archive = Archive.open(request.selection.topic, settings)
    unfinished = None if request.again else _unfinished(request, settings)
    if unfinished is not None:
        return _planned(unfinished.plan(), archive, {}, unfinished)
    extents = _extents(request.selection.topic, archive, settings)
    chosen = _chosen(request, settings)
    resolved = resolve(request.selection, extents, chosen)
    gaps = (*resolved.gaps, *_unarchived_in_window(request.selection, extents, settings))
    if gaps and not request.allow_gaps:
        raise _refused(gaps)
    plan = _plan(request, resolved, gaps, archive, settings, sessions)
    plan, known = _attempt(plan, request.again, settings)
    if known is None:
        plan = plan.counted(next_count(archive, plan.offsets, settings))
    behind = {p: extents[p].behind for p in plan.offsets if extents[p].behind}
    return _planned(plan, archive, behind, known)


def _planned(
    plan: Plan, archive: Archive, behind: Mapping[int, int], known: ReplayFolder | None
) -> Planned:
    files = archive.plan(plan.offsets).files
    return Planned(plan, files, archive.version, behind, known)


def _refuse_source(request: Request) -> None:
    if request.target == request.selection.topic and not request.force:
        raise ReplayRefusedError(
            f"the target is the source, {request.target!r}: what is replayed would be archived "
            "and read by jobs as new records",
            hint="choose another topic with --to, or insist with --force",
            topic=request.target,
        )


def _unfinished(request: Request, settings: Settings) -> ReplayFolder | None:
    """The same request, begun and cut off: its plan holds, though the topic may have grown."""
    for folder in all_replays(settings):
        if folder.manifest_content() is None and folder.request() == request.digest:
            return folder
    return None


def _extents(topic: str, archive: Archive, settings: Settings) -> dict[int, Extent]:
    extents = {
        partition: Extent(found.covered, found.lost)
        for partition, found in archive.coverage().items()
    }
    try:
        # The ends of a topic that was made anew are those of other records.
        same = topic_id(topic, settings.kafka) == archive.topic_id
        states = partition_states(topic, settings.kafka) if same else []
    except TopicNotFoundError:
        return extents
    for state in states:
        known = extents.get(state.partition, Extent(OffsetRanges.of()))
        extents[state.partition] = replace(known, first=state.first, end=state.end)
    return extents


def _chosen(request: Request, settings: Settings) -> dict[int, OffsetRanges] | None:
    """What lineage names; both ways of asking hold at once."""
    asked, topic = request.selection, request.selection.topic
    found: list[dict[int, OffsetRanges]] = []
    if asked.inputs_of:
        found.append(inputs_of(asked.inputs_of, topic, settings))
    if asked.made_by is not None:
        allow_gaps = request.allow_gaps
        found.append(inputs_made_by(asked.made_by, topic, settings, allow_gaps=allow_gaps))
    if not found:
        return None
    first, *others = found
    for other in others:
        both = {p: of & other[p] for p, of in first.items() if p in other}
        first = {p: of for p, of in both.items() if of}
    return first


def _unarchived_in_window(
    selection: Selection, extents: Mapping[int, Extent], settings: Settings
) -> list[Gap]:
    """Where the archive has not come to the end of a time window: the next record is within."""
    if selection.offsets is not None or (selection.since_ms, selection.until_ms) == (None, None):
        return []
    gaps = []
    with RecordReader(settings.kafka) as reader:
        for partition, extent in sorted(extents.items()):
            if not extent.behind or extent.end is None:
                continue
            offset = extent.end - extent.behind
            record = reader.fetch(Address(selection.topic, partition, offset))
            at = record.timestamp_ms if isinstance(record, Record) else None
            if at is None or selection.until_ms is None or at < selection.until_ms:
                gaps.append(Gap(selection.topic, partition, offset, extent.end - 1, NOT_YET))
    return gaps


def _plan(
    request: Request,
    resolved: Resolved,
    gaps: tuple[Gap, ...],
    archive: Archive,
    settings: Settings,
    sessions: Sessions,
) -> Plan:
    asked = request.selection
    offsets, records = dict(resolved.offsets), dict[int, int]()
    filters = {name: value for name, value in asked.as_json().items() if value is not None}
    filters.pop("topic")
    if asked.filters_rows and offsets:
        offsets, records = _count(offsets, filters, request, archive, sessions)
    else:
        records = {p: archive.plan({p: of}).records for p, of in offsets.items()}
        offsets = {p: of for p, of in offsets.items() if records[p]}
        records = {p: number for p, number in records.items() if number}
    if not offsets:
        raise InputError(
            f"no archived record of {asked.topic!r} is selected",
            hint=f"`headwater archive status {asked.topic}` shows what there is",
        )
    return Plan(
        logic=request.name,
        job_name=request.logic.job_name,
        job_version=request.job_version,
        topic=asked.topic,
        offsets=offsets,
        records=records,
        target=request.target,
        filters=filters,
        # Only a predicate reads them: another schema makes no other replay without one.
        fields=request.logic.fields if "where" in filters else {},
        gaps=gaps,
        skip_existing=request.skip_existing,
        delivery=request.delivery,
        # At least a record of each partition, so that no step is empty.
        steps=steps_for(sum(records.values()), max(settings.replay.step_records, len(offsets))),
    )


def _count(
    offsets: Mapping[int, OffsetRanges],
    filters: Mapping[str, object],
    request: Request,
    archive: Archive,
    sessions: Sessions,
) -> tuple[dict[int, OffsetRanges], dict[int, int]]:
    """Narrow the offsets to those between which records match: what is archived later, and is
    no match, changes no plan."""
    from headwater.replay.rows import ArchiveRows

    rows = ArchiveRows.open(sessions(), archive, filters, request.logic.fields)
    found = rows.count(offsets)
    narrowed = {
        one.partition: offsets[one.partition] & OffsetRanges.of((one.first, one.last))
        for one in found
    }
    return narrowed, {one.partition: one.records for one in found}


def _attempt(plan: Plan, again: bool, settings: Settings) -> tuple[Plan, ReplayFolder | None]:
    """The first attempt that is not done, or, unless it is to be done again, the last that is.

    One that was undone is as if it had not been: the next one does it anew.
    """
    attempt = 1
    while True:
        tried = plan.again(attempt)
        folder = ReplayFolder.of(tried.replay_id, settings)
        if not folder.exists():
            return tried, None
        manifest = folder.manifest()
        if manifest is None or (manifest.state == DONE and not again):
            return folder.plan(), folder
        attempt += 1


def _refused(gaps: tuple[Gap, ...]) -> ReplayRefusedError:
    told = "; ".join(map(str, gaps[:_GAPS_TOLD]))
    more = f"; and {len(gaps) - _GAPS_TOLD} more" if len(gaps) > _GAPS_TOLD else ""
    late = any(gap.reason == NOT_YET for gap in gaps)
    hint = "--allow-gaps replays the rest and notes what is missing"
    if late:
        hint = f"wait until data_synchronization_job has archived them; {hint}"
    return ReplayRefusedError(
        f"the archive does not hold all of it: {told}{more}",
        hint=hint,
        gaps=[str(gap) for gap in gaps],
    )
