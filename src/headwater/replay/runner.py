"""Runs a plan, step by step: each is noted before it begins and after it is done, so that a
replay that was cut off goes on, and ends as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from headwater import faultpoints
from headwater.archive.reader import Archive
from headwater.delivery.lease import lease
from headwater.errors import HeadwaterError, QueryFailedError
from headwater.replay.digest_columns import checksum_of
from headwater.replay.folder import ReplayFolder
from headwater.replay.logic import Logic
from headwater.replay.manifest import Manifest
from headwater.replay.plan import Plan
from headwater.replay.rows import ArchiveRows
from headwater.replay.table_target import TableTarget
from headwater.replay.target import Context, Ends, ReplayTarget, observe_read
from headwater.replay.topic_target import TopicTarget
from headwater.rowlineage.columns import with_lineage
from headwater.settings import Settings
from headwater.spark import StopSignal

Say = Callable[[str], None]


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
    logic: Logic,
    spark: SparkSession,
    settings: Settings,
    *,
    request: str = "",
    say: Say = lambda line: None,
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
        run = _Run(Context(spark, plan, logic, folder, settings), rows, say)
        if run.resumes:
            say(f"going on with step {run.next_step + 1} of {plan.steps}")
        while not stop.requested and run.next_step < plan.steps:
            run.take_step()
        if run.next_step < plan.steps:
            say(f"stopped behind step {run.next_step} of {plan.steps}; the same command goes on")
            return Outcome(folder, None, new=True)
        return Outcome(folder, run.finish(), new=True)


def _rows(plan: Plan, spark: SparkSession, settings: Settings) -> ArchiveRows:
    archive = Archive.open(plan.topic, settings)
    return ArchiveRows.open(spark, archive, plan.filters, plan.fields)


class _Run:
    """The steps of a replay that are still to be taken."""

    def __init__(self, context: Context, rows: ArchiveRows, say: Say) -> None:
        self._context = context
        self._rows = rows
        self._say = say
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
        faultpoints.reach("before_replay_step")
        try:
            result = self._target.write_step(outputs, step, offsets, again=step == self._cut_off)
        except HeadwaterError:
            raise
        except Exception as error:
            # py4j hands on what a task threw, with the whole stack of the JVM in its text.
            raise self._failed(step, error) from error
        result.read = checksum_of(seen.get)
        faultpoints.reach("after_replay_step")
        context.folder.commit_step(step, result)
        self.next_step += 1
        self._cut_off = None
        self._say(
            f"step {self.next_step} of {context.plan.steps}: {result.read.records} records read, "
            f"{result.outputs.records} written"
        )

    def finish(self) -> Manifest:
        """Put the evidence together and keep it."""
        context = self._context
        faultpoints.reach("before_replay_manifest")
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
