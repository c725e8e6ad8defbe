"""A replay from the request to its end, and its undo."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import ReplayRefusedError
from headwater.model.progress import Progress, no_progress
from headwater.replay.folder import ReplayFolder
from headwater.replay.manifest import UNDONE, Manifest
from headwater.replay.planning import PlannedReplay, SessionFactory, make_plan
from headwater.replay.request import Request
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.replay.runner import ReplayOutcome

_LOG = logging.getLogger(__name__)


class LazySparkSession:
    """A Spark session that is started on the first call: many commands need none."""

    def __init__(self, settings: Settings, progress: Progress = no_progress) -> None:
        self._settings = settings
        self._progress = progress
        self._spark: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._spark is None:
            from headwater.spark.session import create_session

            _LOG.info("starting Spark")
            self._spark = create_session(
                "headwater-replay",
                self._settings,
                connectors=("kafka", "delta"),
                progress=self._progress,
            )
        return self._spark


def replay(request: Request, settings: Settings, sessions: SessionFactory) -> ReplayOutcome:
    """Plan and execute a replay.

    Raises:
        ReplayRefusedError: the result would not be what was requested.
        QueryFailedError: a step failed; the same request resumes it.
    """
    return run_planned(make_plan(request, settings, sessions), request, settings, sessions)


def run_planned(
    planned: PlannedReplay, request: Request, settings: Settings, sessions: SessionFactory
) -> ReplayOutcome:
    """Execute a plan. If it is already done, nothing is written and Spark is not started."""
    from headwater.replay.runner import ReplayOutcome, run_plan

    existing = planned.existing
    manifest = existing.manifest() if existing is not None else None
    if existing is not None and manifest is not None:
        return ReplayOutcome(existing, manifest, new=False)
    return run_plan(planned.plan, request.transform, sessions(), settings, request=request.digest)


def undo_replay(folder: ReplayFolder, settings: Settings, sessions: SessionFactory) -> Manifest:
    """Delete the rows that a replay wrote to a table, in one commit.

    An interrupted replay can be undone, too. A second undo does nothing.

    Raises:
        ReplayRefusedError: the replay wrote to a topic.
        CheckpointInUseError: the replay is still running.
    """
    plan = folder.plan()
    if not plan.can_be_undone:
        raise ReplayRefusedError(
            f"replay {folder.replay_id} wrote to the topic {plan.target!r}, which can't be undone",
            hint="consumers can skip its records by their header `replay_id`",
        )
    manifest = folder.manifest()
    if manifest is not None and manifest.state == UNDONE:
        return manifest

    from headwater.replay.runner import now_text
    from headwater.replay.table_target import remove_run
    from headwater.replay.target import run_id_of
    from headwater.spark.query_runner import lease

    spark = sessions()
    with lease(folder.path, spark):
        run_id = run_id_of(folder.replay_id)
        rows = remove_run(spark, plan.target, run_id)
        manifest = manifest or Manifest(plan, run_id, folder.result(), folder.began(), now_text())
        manifest = replace(manifest, state=UNDONE, undone_rows=rows)
        folder.store_manifest(manifest, settings)
    return manifest
