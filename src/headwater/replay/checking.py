"""Verifies a replay's manifest: its signature, the archived inputs and the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.errors import InputError
from headwater.kafka import partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.foreign_headers import REPLAY_ID
from headwater.model.header import encode, identity_of, origin_of
from headwater.model.progress import Progress, no_progress
from headwater.replay.folder import ReplayFolder
from headwater.replay.manifest import NO_IDENTITY, UNDONE, Checksum, Manifest
from headwater.replay.plan import Plan
from headwater.replay.planning import SessionFactory
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class ReplayCheck:
    """What was compared, and the differences that were found."""

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
    sessions: SessionFactory,
    progress: Progress = no_progress,
) -> ReplayCheck:
    """Check every claim of the manifest. Spark is started only for tables and filters.

    Raises:
        InputError: the replay is not done, so that there is no manifest.
    """
    manifest = folder.manifest()
    if manifest is None:
        raise InputError(
            f"replay {folder.replay_id} is not done: {folder.state()}",
            hint="the same command resumes it",
        )
    check = ReplayCheck(folder.replay_id)
    problem = folder.signature_problem(settings)
    if problem is not None:
        check.findings.append(f"the manifest: {problem}")
    if manifest.plan.replay_id != folder.replay_id:
        check.findings.append(f"the manifest belongs to replay {manifest.plan.replay_id}")
    _check_inputs(check, manifest, settings, sessions)
    if manifest.plan.into_table:
        _check_table(check, manifest, sessions)
    else:
        _check_topic(check, manifest, settings, progress)
    return check


def _check_inputs(
    check: ReplayCheck, manifest: Manifest, settings: Settings, sessions: SessionFactory
) -> None:
    plan = manifest.plan
    if plan.filters:
        check.read = _read_checksum(plan, sessions(), settings)
    else:
        for record in Archive.open(plan.topic, settings).read(plan.offsets):
            check.read.add(str(record.address), record.key, record.value)
    _compare(check, "the archive has", check.read, manifest.result.read)


def _check_table(check: ReplayCheck, manifest: Manifest, sessions: SessionFactory) -> None:
    check.written = _written_checksum(manifest.plan, manifest.run_id, sessions())
    expected = Checksum() if manifest.state == UNDONE else manifest.result.outputs
    _compare(check, "the table has", check.written, expected)


def _check_topic(
    check: ReplayCheck, manifest: Manifest, settings: Settings, progress: Progress
) -> None:
    order = _Order()
    seen: set[str] = set()
    for record in _written_records(manifest, settings, progress):
        lineage = origin_of(record).lineage
        if lineage is None:
            check.findings.append(f"{record.address} has no readable lineage")
            continue
        identity = identity_of(encode(lineage))
        if identity is not None:
            if identity in seen:
                check.findings.append(f"{record.address} is a duplicate of {identity}")
                continue
            seen.add(identity)
        check.written.add(identity or NO_IDENTITY, record.key, record.value)
        if lineage.exact and order.is_overtaken(record, lineage.parents):
            check.findings.append(f"{record.address} comes after a record of a later input")
    _compare(check, "the target has", check.written, manifest.result.outputs)


def _written_records(
    manifest: Manifest, settings: Settings, progress: Progress
) -> Iterator[Record]:
    """The records with the replay's id between the end offsets before and after the replay."""
    replay_id = manifest.plan.replay_id.encode()
    for topic, ends in manifest.ends_after.items():
        before = manifest.ends_before.get(topic, {})
        first = {state.partition: state.first for state in partition_states(topic, settings.kafka)}
        start = {int(p): before.get(p, 0) for p in ends if int(p) in first}
        until = {int(p): end for p, end in ends.items()}
        for record in read_topic(
            topic, settings.kafka, start=start, until=until, progress=progress
        ):
            # The outputs of a later job carry the header, too, but name that job.
            if record.header(REPLAY_ID) == replay_id and _is_output(record, manifest.plan):
                yield record


def _is_output(record: Record, plan: Plan) -> bool:
    return origin_of(record).job_name == plan.job_name


class _Order:
    """The latest input offset, by output partition and input partition."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int, str, int], int] = {}

    def is_overtaken(self, record: Record, parents: tuple[Address, ...]) -> bool:
        if len(parents) != 1:
            return False
        (parent,) = parents
        output = record.address
        pair = (output.topic, output.partition, parent.topic, parent.partition)
        latest = self._latest.get(pair, -1)
        self._latest[pair] = max(latest, parent.offset)
        return parent.offset < latest


def _compare(check: ReplayCheck, subject: str, actual: Checksum, expected: Checksum) -> None:
    if actual.records != expected.records:
        check.findings.append(f"{subject} {actual.records} records, not {expected.records}")
    elif str(actual) != str(expected):
        check.findings.append(f"{subject} {actual.records} records, but some have changed")


def _read_checksum(plan: Plan, spark: SparkSession, settings: Settings) -> Checksum:
    """The checksum of the archived records that the plan selects now."""
    from pyspark.sql import functions as F

    from headwater.replay.identities import record_hash
    from headwater.replay.rows import ArchivedRows, archived_address

    archive = Archive.open(plan.topic, settings)
    # The predicate was checked when the plan was made.
    rows = ArchivedRows.open(spark, archive, plan.filters, plan.fields).in_order(plan.offsets)
    return _checksum(rows.select(record_hash(archived_address(), F.col("key"), F.col("value"))))


def _written_checksum(plan: Plan, run_id: str, spark: SparkSession) -> Checksum:
    """The checksum of the rows that a replay has written to a table."""
    from headwater.replay.identities import CONTENT, register_digest_udf
    from headwater.replay.table_target import rows_of_run

    register_digest_udf(spark)
    return _checksum(rows_of_run(spark, plan.target, run_id).select(CONTENT))


def _checksum(hashes: DataFrame) -> Checksum:
    from pyspark.sql import functions as F

    from headwater.replay.identities import checksum_metrics, checksum_of

    (row,) = hashes.agg(*checksum_metrics(F.col(hashes.columns[0]))).collect()
    return checksum_of(row.asDict())
