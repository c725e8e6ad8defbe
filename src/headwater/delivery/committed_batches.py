"""The batches of a query that transactions have committed, compared with its checkpoint."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import CheckpointError
from headwater.kafka import greatest_group_offset
from headwater.settings.kafka import KafkaSettings
from headwater.storage.checkpoint import query_id, read_progress


def refuse_older_checkpoint(checkpoint: Path | str, folder: Path, settings: KafkaSettings) -> None:
    """Refuse a checkpoint that has not started a batch that the output has: the tasks would take
    other records under the same batch id for written ones.

    Args:
        checkpoint: its path or URI.
        folder: the checkpoint, or a local copy of it.

    Raises:
        CheckpointError: names both batches.
    """
    query = query_id(folder)
    if query is None:
        return
    # As in `TransactionalDelivery.java`: the offset of a group is the batch of a task.
    newest = greatest_group_offset(f"headwater-{query}-", settings)
    started = read_progress(folder).started
    if newest is not None and newest > started:
        raise CheckpointError(
            f"{checkpoint} is older than the output: its newest batch is {started}, but the "
            f"output has batch {newest} of this query",
            hint="use the newest checkpoint: records under the batch ids of written ones would be "
            "lost. With a new --checkpoint, choose --starting-offsets after the written records",
            checkpoint=str(checkpoint),
        )
