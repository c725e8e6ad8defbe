"""Holds a replay's manifest against what is there: its signature, the archive and the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.errors import InputError
from headwater.kafka import partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.header_codec import encode, identity_of
from headwater.model.headers import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.replay.digest import Checksum
from headwater.replay.folder import ReplayFolder
from headwater.replay.headers import REPLAY_ID
from headwater.replay.manifest import UNDONE, Manifest
from headwater.replay.plan import Plan
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Check:
    """What was compared, and what does not fit."""

    replay_id: str
    read: Checksum = field(default_factory=Checksum)
    written: Checksum = field(default_factory=Checksum)
    findings: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        return {
            "replay_id": self.replay_id,
            "passed": self.passed,
            "read": self.read.records,
            "written": self.written.records,
            "findings": self.findings,
        }


def check_replay(
    folder: ReplayFolder,
    settings: Settings,
    sessions: Callable[[], SparkSession],
    progress: Progress = no_progress,
) -> Check:
    """Look at everything that the manifest claims. Spark is started for tables and filters only.

    Raises:
        InputError: the replay has not come to its end, so that there is nothing to check.
    """
    manifest = folder.manifest()
    if manifest is None:
        raise InputError(
            f"replay {folder.replay_id} is not done: {folder.state()}",
            hint="the same command goes on with it",
        )
    check = Check(folder.replay_id)
    doubt = folder.doubt(settings)
    if doubt is not None:
        check.findings.append(f"the manifest: {doubt}")
    if manifest.plan.replay_id != folder.replay_id:
        check.findings.append(f"the manifest is that of replay {manifest.plan.replay_id}")
    _check_inputs(check, manifest, settings, sessions)
    if manifest.plan.into_table:
        _check_table(check, manifest, sessions)
    else:
        _check_topic(check, manifest, settings, progress)
    return check


def _check_inputs(
    check: Check, manifest: Manifest, settings: Settings, sessions: Callable[[], SparkSession]
) -> None:
    plan = manifest.plan
    if plan.filters:
        from headwater.replay.checking_rows import read_checksum

        check.read = read_checksum(plan, sessions(), settings)
    else:
        for record in Archive.open(plan.topic, settings).read(plan.offsets):
            check.read.add(str(record.address), record.key, record.value)
    _compare(check, "the archive has", check.read, manifest.result.read)


def _check_table(check: Check, manifest: Manifest, sessions: Callable[[], SparkSession]) -> None:
    from headwater.replay.checking_rows import written_checksum

    check.written = written_checksum(manifest.plan, manifest.run_id, sessions())
    expected = Checksum() if manifest.state == UNDONE else manifest.result.outputs
    _compare(check, "the table has", check.written, expected)


def _check_topic(check: Check, manifest: Manifest, settings: Settings, progress: Progress) -> None:
    order = _Order()
    seen: set[str] = set()
    for record in _written(manifest, settings, progress):
        lineage = origin_of(record).lineage
        if lineage is None:
            check.findings.append(f"{record.address} has no readable lineage")
            continue
        identity = identity_of(encode(lineage))
        if identity in seen:
            check.findings.append(f"{record.address} is there twice: {identity}")
            continue
        seen.add(identity)
        check.written.add(identity, record.key, record.value)
        overtaken = order.overtakes(record, lineage.parents)
        if overtaken:
            check.findings.append(f"{record.address} comes behind a record of later input")
    _compare(check, "the target has", check.written, manifest.result.outputs)


def _written(manifest: Manifest, settings: Settings, progress: Progress) -> Iterator[Record]:
    """The records between the two ends that carry the replay's id, whoever wrote beside it."""
    replay_id = manifest.plan.replay_id.encode()
    for topic, ends in manifest.ends_after.items():
        before = manifest.ends_before.get(topic, {})
        first = {state.partition: state.first for state in partition_states(topic, settings.kafka)}
        start = {int(p): before.get(p, 0) for p in ends if int(p) in first}
        until = {int(p): end for p, end in ends.items()}
        for record in read_topic(
            topic, settings.kafka, start=start, until=until, progress=progress
        ):
            # A copy that a later job made has the header, too; its own stamp comes first.
            if record.header(REPLAY_ID) == replay_id and _made_by(record, manifest.plan):
                yield record


def _made_by(record: Record, plan: Plan) -> bool:
    return origin_of(record).job_name == plan.job_name


class _Order:
    """Of each output partition, the newest input of each input partition."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int, str, int], int] = {}

    def overtakes(self, record: Record, parents: tuple[Address, ...]) -> bool:
        if len(parents) != 1:
            return False
        (parent,) = parents
        to = record.address
        place = (to.topic, to.partition, parent.topic, parent.partition)
        before = self._newest.get(place, -1)
        self._newest[place] = max(before, parent.offset)
        return parent.offset < before


def _compare(check: Check, who: str, found: Checksum, expected: Checksum) -> None:
    if found.records != expected.records:
        check.findings.append(f"{who} {found.records} records, not {expected.records}")
    elif str(found) != str(expected):
        check.findings.append(f"{who} {found.records} records, but some are not what they were")
