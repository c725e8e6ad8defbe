"""Executes a plan step by step. Each step is recorded before it starts and after it is done, so
that an interrupted replay can be resumed with the same result."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError, QueryFailedError
from headwater.replay.folder import ReplayFolder
from headwater.replay.identities import checksum_of
from headwater.replay.manifest import Manifest
from headwater.replay.plan import Plan
from headwater.replay.rows import ORDER_CONFIGURATION, ArchivedRows
from headwater.replay.table_target import TableTarget
from headwater.replay.target import Ends, ReplayContext, ReplayTarget, observe_read
from headwater.replay.topic_target import TopicTarget
from headwater.replay.transform import Transform
from headwater.settings import Settings, fault_points
from headwater.spark.configuration import configured
from headwater.spark.query_failure import failure
from headwater.spark.query_runner import StopSignal, lease
from headwater.spark.source import with_lineage
from headwater.storage.archive.reader import Archive

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplayOutcome:
    """The result of a replay. `new` is False if it was already done; `manifest` is None if it was
    stopped after a step."""

    folder: ReplayFolder
    manifest: Manifest | None
    new: bool


def now_text() -> str:
    """The current time, for information only: no identity is derived from it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_plan(
    plan: Plan,
    transform: Transform,
    spark: SparkSession,
    settings: Settings,
    *,
    request: str = "",
) -> ReplayOutcome:
    """Execute a plan from the first step that is not done.

    In a command, SIGTERM and SIGINT stop it after the current step.

    Raises:
        UnsafeDeliveryError: Spark's settings would break the delivery guarantee of a topic.
        CheckpointInUseError: another process runs the same replay.
        QueryFailedError: a step failed; the same command resumes it.
    """
    folder = ReplayFolder.of(plan.replay_id, settings)
    manifest = folder.manifest()
    if manifest is not None:
        return ReplayOutcome(folder, manifest, new=False)
    folder.make()
    stop = StopSignal()
    with (
        stop.on_signals(),
        lease(folder.path, spark),
        configured(spark, ORDER_CONFIGURATION),
    ):
        if folder.exists():
            plan = folder.plan()
        else:
            folder.begin(plan, request, now_text())
        rows = _rows(plan, spark, settings)
        run = _Run(ReplayContext(spark, plan, transform, folder, settings), rows)
        if run.resumed:
            _LOG.info("resuming at step %d of %d", run.next_step + 1, plan.steps)
        while not stop.requested and run.next_step < plan.steps:
            run.run_step()
        if run.next_step < plan.steps:
            _LOG.info(
                "stopped after step %d of %d; run the same command to resume",
                run.next_step,
                plan.steps,
            )
            return ReplayOutcome(folder, None, new=True)
        return ReplayOutcome(folder, run.finish(), new=True)


def _rows(plan: Plan, spark: SparkSession, settings: Settings) -> ArchivedRows:
    archive = Archive.open(plan.topic, settings)
    return ArchivedRows.open(spark, archive, plan.filters, plan.fields)


class _Run:
    """The remaining steps of a replay."""

    def __init__(self, context: ReplayContext, rows: ArchivedRows) -> None:
        self._context = context
        self._rows = rows
        target_class = TableTarget if context.plan.into_table else TopicTarget
        self._target: ReplayTarget = target_class(context)
        progress = context.folder.progress()
        self._interrupted = progress.cut_off
        self.next_step = progress.committed + 1
        self.resumed = progress.started >= 0
        self._prepared = False

    def run_step(self) -> None:
        context, step = self._context, self.next_step
        offsets = context.plan.step(step)
        rows, observation = observe_read(self._rows.in_order(offsets))
        outputs = context.transform.function(with_lineage(rows))
        if not self._prepared:
            self._target.prepare(rows, outputs)
            context.folder.store_ends("before", self._target.ends())
            self._prepared = True
        self._target.before_step()
        context.folder.begin_step(step, offsets, context.plan.topic)
        fault_points.reach("before_replay_step")
        try:
            result = self._target.write_step(
                outputs, step, offsets, again=step == self._interrupted
            )
        except HeadwaterError:
            raise
        except Exception as error:
            # The message of a py4j error contains the stack trace of the JVM.
            raise self._failed(step, error) from error
        result.read = checksum_of(observation.get)
        fault_points.reach("after_replay_step")
        context.folder.commit_step(step, result)
        self.next_step += 1
        self._interrupted = None
        _LOG.info(
            "step %d of %d: %d records read, %d written",
            self.next_step,
            context.plan.steps,
            result.read.records,
            result.outputs.records,
        )

    def finish(self) -> Manifest:
        """Write the manifest."""
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
            context.folder.stored_ends("before"),
            ends,
        )
        context.folder.store_manifest(manifest, context.settings)
        return manifest

    def _failed(self, step: int, error: Exception) -> QueryFailedError:
        replay_id = self._context.plan.replay_id
        return failure(
            f"step {step + 1} of replay {replay_id}",
            str(error),
            self._context.settings,
            hint="the same command resumes at this step",
            otherwise=reason_of(error),
            replay_id=replay_id,
            step=step,
        )


def reason_of(error: Exception) -> str:
    """The message of the last cause in a JVM stack trace, or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (causes[-1].removeprefix("Caused by: ") if causes else (lines or [repr(error)])[0])[:500]
