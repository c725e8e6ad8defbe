"""Runs a plan, step by step: each is noted before it begins and after it is done, so that a
replay that was cut off goes on, and ends as if it had not been."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError, QueryFailedError
from headwater.replay.digest_columns import checksum_of
from headwater.replay.folder import ReplayFolder
from headwater.replay.manifest import Manifest
from headwater.replay.plan import Plan
from headwater.replay.rows import ArchiveRows
from headwater.replay.table_target import TableTarget
from headwater.replay.target import Context, Ends, ReplayTarget, observe_read
from headwater.replay.topic_target import TopicTarget
from headwater.replay.transform import Transform
from headwater.settings import Settings, fault_points
from headwater.spark import StopSignal
from headwater.spark.lease import lease
from headwater.spark.lineage_columns import with_lineage
from headwater.storage.archive.reader import Archive

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """A replay that came to its end now, or had before; or that was stopped behind a step."""

    folder: ReplayFolder
    manifest: Manifest | None
    new: bool


def now_text() -> str:
    """For people: no identity is made of it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_plan(
    plan: Plan,
    logic: Transform,
    spark: SparkSession,
    settings: Settings,
    *,
    request: str = "",
) -> Outcome:
    """Replay, from the first step that is not done; nothing if all are.

    SIGTERM and SIGINT end it behind the step that runs.

    Raises:
        UnsafeDeliveryError: Spark's settings would break what is promised for a topic.
        CheckpointInUseError: another process runs the same replay.
        QueryFailedError: a step failed; the same command goes on with it.
    """
    folder = ReplayFolder.of(plan.replay_id, settings)
    manifest = folder.manifest()
    if manifest is not None:
        return Outcome(folder, manifest, new=False)
    folder.path.mkdir(parents=True, exist_ok=True)
    stop = StopSignal()
    with stop.on_signals(), lease(folder.path, spark):
        if folder.exists():
            plan = folder.plan()
        else:
            folder.begin(plan, request, now_text())
        rows = _rows(plan, spark, settings)
        run = _Run(Context(spark, plan, logic, folder, settings), rows)
        if run.resumes:
            _LOG.info("resuming at step %d of %d", run.next_step + 1, plan.steps)
        while not stop.requested and run.next_step < plan.steps:
            run.take_step()
        if run.next_step < plan.steps:
            _LOG.info(
                "stopped after step %d of %d; run the same command to resume",
                run.next_step,
                plan.steps,
            )
            return Outcome(folder, None, new=True)
        return Outcome(folder, run.finish(), new=True)


def _rows(plan: Plan, spark: SparkSession, settings: Settings) -> ArchiveRows:
    archive = Archive.open(plan.topic, settings)
    return ArchiveRows.open(spark, archive, plan.filters, plan.fields)


class _Run:
    """The steps of a replay that are still to be taken."""

    def __init__(self, context: Context, rows: ArchiveRows) -> None:
        self._context = context
        self._rows = rows
        kind = TableTarget if context.plan.into_table else TopicTarget
        self._target: ReplayTarget = kind(context)
        progress = context.folder.progress()
        self._cut_off = progress.cut_off
        self.next_step = progress.committed + 1
        self.resumes = progress.begun >= 0
        self._prepared = False

    def take_step(self) -> None:
        context, step = self._context, self.next_step
        offsets = context.plan.step(step)
        rows, seen = observe_read(self._rows.in_order(offsets))
        outputs = context.logic.function(with_lineage(rows))
        if not self._prepared:
            self._target.prepare(rows, outputs)
            context.folder.note_ends("before", self._target.ends())
            self._prepared = True
        self._target.before_step()
        context.folder.begin_step(step, offsets, context.plan.topic)
        fault_points.reach("before_replay_step")
        try:
            result = self._target.write_step(outputs, step, offsets, again=step == self._cut_off)
        except HeadwaterError:
            raise
        except Exception as error:
            # py4j hands on what a task threw, with the whole stack of the JVM in its text.
            raise self._failed(step, error) from error
        result.read = checksum_of(seen.get)
        fault_points.reach("after_replay_step")
        context.folder.commit_step(step, result)
        self.next_step += 1
        self._cut_off = None
        _LOG.info(
            "step %d of %d: %d records read, %d written",
            self.next_step,
            context.plan.steps,
            result.read.records,
            result.outputs.records,
        )

    def finish(self) -> Manifest:
        """Put the evidence together and keep it."""
        context = self._context
        fault_points.reach("before_replay_manifest")
        ends: Ends = self._target.ends()
        manifest = Manifest(
            context.plan,
            context.run_id,
            context.folder.result(),
            context.folder.began(),
            now_text(),
            self._rows.archive.version,
            context.folder.noted_ends("before"),
            ends,
        )
        context.folder.keep_manifest(manifest, context.settings)
        return manifest

    def _failed(self, step: int, error: Exception) -> QueryFailedError:
        return QueryFailedError(
            f"step {step + 1} of replay {self._context.plan.replay_id} failed: {reason_of(error)}",
            hint="the same command goes on with this step",
            replay_id=self._context.plan.replay_id,
            step=step,
        )


def reason_of(error: Exception) -> str:
    """The line that says what went wrong: of a chain of causes, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (causes[-1].removeprefix("Caused by: ") if causes else (lines or [repr(error)])[0])[:500]
