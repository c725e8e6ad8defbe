"""Takes back what a replay wrote to a table: its rows and no others, in one commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from headwater.errors import ReplayRefusedError
from headwater.replay.folder import ReplayFolder
from headwater.replay.manifest import UNDONE, Manifest
from headwater.replay.runner import now_text
from headwater.replay.table_target import remove_run
from headwater.replay.target import run_id_of
from headwater.settings import Settings
from headwater.spark.lease import lease


def undo_replay(
    folder: ReplayFolder, settings: Settings, sessions: Callable[[], SparkSession]
) -> Manifest:
    """Remove a replay's rows, also of one that was cut off; nothing if that was done before.

    Raises:
        ReplayRefusedError: it wrote to a topic.
        CheckpointInUseError: it still runs.
    """
    plan = folder.plan()
    if not plan.can_be_undone:
        raise ReplayRefusedError(
            f"replay {folder.replay_id} wrote to the topic {plan.target!r}, which can't be undone",
            hint="readers can leave its records out by their header `replay_id`",
        )
    manifest = folder.manifest()
    if manifest is not None and manifest.state == UNDONE:
        return manifest
    spark = sessions()
    with lease(folder.path, spark):
        run_id = run_id_of(folder.replay_id)
        rows = remove_run(spark, plan.target, run_id)
        manifest = manifest or Manifest(plan, run_id, folder.result(), folder.began(), now_text())
        manifest = replace(manifest, state=UNDONE, undone_rows=rows)
        folder.keep_manifest(manifest, settings)
    return manifest
