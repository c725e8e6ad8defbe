"""The batches of a query that transactions have committed, compared with its checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater.errors import CheckpointError
from headwater.kafka import greatest_group_offset, group_offset_retention
from headwater.settings.kafka import KafkaSettings
from headwater.storage.checkpoint import query_id, read_batch_time, read_progress
from headwater.storage.query_identity import DUPLICATES

_LOG = logging.getLogger(__name__)


def check_committed_batches(
    checkpoint: Path | str, folder: Path, accept: Collection[str], settings: KafkaSettings
) -> None:
    """Refuse a checkpoint that contradicts the committed batches, which are the offsets of groups,
    or whose interrupted batch can't be compared with them any more.

    Args:
        checkpoint: its path or URI.
        folder: the checkpoint, or a local copy of it.
        accept: what is not refused, by name.

    Raises:
        CheckpointError: names batches or times.
    """
    query, began = query_id(folder), read_batch_time(folder)
    if query is None:
        return
    _refuse_older_checkpoint(query, checkpoint, folder, settings)
    retention = None if began is None else group_offset_retention(settings)
    if began is not None and retention is not None:
        batch = read_progress(folder).cut_off
        check_retention(checkpoint, batch, began, datetime.now(UTC), retention, accept)


def _refuse_older_checkpoint(
    query: str, checkpoint: Path | str, folder: Path, settings: KafkaSettings
) -> None:
    """Refuse a checkpoint that has not started a batch that the output has: the tasks would take
    other records under the same batch id for written ones."""
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


def check_retention(
    checkpoint: Path | str,
    interrupted: int | None,
    began: datetime,
    now: datetime,
    retention: timedelta,
    accept: Collection[str],
) -> None:
    """Warn if the offsets of the groups may expire soon, and refuse to complete an interrupted
    batch after that: what it has committed is not known any more.

    Args:
        interrupted: the batch that will run again, if there is one.
        began: when the newest batch began.
        retention: how long Kafka keeps the offsets.

    Raises:
        CheckpointError: the offsets of the interrupted batch may have expired.
    """
    age = timedelta(seconds=round((now - began).total_seconds()))
    if age <= retention / 2:
        return
    times = (
        f"the last batch of {checkpoint} began at {began:%Y-%m-%d %H:%M} UTC, {age} ago; Kafka "
        f"keeps the offsets of its groups for {retention}"
    )
    if age > retention and interrupted is not None and DUPLICATES not in accept:
        raise CheckpointError(
            f"{times}: which records of the interrupted batch {interrupted} are committed is not "
            "known any more",
            hint="choose another --checkpoint with --starting-offsets after the batch. To write "
            f"the batch again: --accept {DUPLICATES}, or LineageJob(accept=[…]). For longer "
            "pauses, raise offsets.retention.minutes of the brokers",
            checkpoint=str(checkpoint),
        )
    _LOG.warning(
        "%s: an interrupted batch can be completed without duplicates only within that time; for "
        "longer pauses, raise offsets.retention.minutes of the brokers",
        times,
    )
