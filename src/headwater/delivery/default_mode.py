"""The delivery mode of a query whose user names none, and the conditions of exactly-once delivery.

Such a query has the mode of its checkpoint. A new one is exactly-once where that can be guaranteed,
and otherwise transactional.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from headwater.spark.remote_checkpoint import local_checkpoint
from headwater.storage.checkpoint import OUTPUT_OFFSETS_FILE, read_identity

_LOG = logging.getLogger(__name__)

EXACTLY_ONCE = "exactly-once"
TRANSACTIONAL = "transactional"
# A local master has its number of attempts in its name: local[4,2] tries twice.
_LOCAL_MASTER = re.compile(r"local(\[[^\],]+(,\s*(?P<attempts>[^\]\s][^\]]*))?\])?")
_WRITES_TWICE = "a task that runs twice writes twice"
_READ_COMMITTED = "its consumers need isolation.level=read_committed"


class Obstacle(NamedTuple):
    """A setting with which exactly-once delivery can't be guaranteed."""

    setting: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting}={self.value}: {self.why}"


def obstacle(master: str, speculation: str, checkpoint: Path | str) -> Obstacle | None:
    """What prevents exactly-once delivery with this master, `spark.speculation` and checkpoint."""
    local = _LOCAL_MASTER.fullmatch(master)
    if local is None:
        why = "tasks run on executors that outlive the driver or are retried"
        return Obstacle("spark.master", master, why)
    if (local["attempts"] or "1") != "1":
        return Obstacle("spark.task.maxFailures", local["attempts"], _WRITES_TWICE)
    if speculation.lower() == "true":
        return Obstacle("spark.speculation", "true", _WRITES_TWICE)
    if not isinstance(checkpoint, Path):
        why = "the output offsets are recorded next to it, in a local folder"
        return Obstacle("checkpoint", checkpoint, why)
    return None


def obstacle_in(spark: SparkSession, checkpoint: Path | str) -> Obstacle | None:
    """As `obstacle`, with the configuration of a session."""
    conf = spark.sparkContext.getConf()
    master, speculation = conf.get("spark.master", ""), conf.get("spark.speculation", "")
    return obstacle(master or "", speculation or "", checkpoint)


def default_mode(spark: SparkSession, checkpoint: Path | str, shared: str | None) -> str:
    """The mode of a query whose user names none; a mode other than exactly-once is logged.

    Args:
        shared: why its rows can't be identified by their parents; None if they can.

    Raises:
        CheckpointError: the checkpoint is damaged.
    """
    with local_checkpoint(checkpoint, spark) as folder:
        stored = _stored_mode(folder)
    found = obstacle_in(spark, checkpoint)
    return choose_mode(stored, shared or (str(found) if found else None), checkpoint)


def choose_mode(stored: str | None, reason: str | None, checkpoint: Path | str) -> str:
    """The mode of the checkpoint, or the strongest one that is possible.

    Args:
        stored: the mode of the last start with this checkpoint.
        reason: why exactly-once delivery can't be guaranteed; None if it can.
    """
    if stored is None and reason is not None:
        _LOG.warning(
            "no delivery mode is named, and exactly-once can't be guaranteed (%s): the mode is "
            "transactional, and %s",
            *(reason, _READ_COMMITTED),
        )
        return TRANSACTIONAL
    if stored == TRANSACTIONAL:
        _LOG.info(
            "no delivery mode is named: it is transactional, as in %s, and %s",
            *(checkpoint, _READ_COMMITTED),
        )
    elif stored not in (None, EXACTLY_ONCE):
        _LOG.warning(
            "no delivery mode is named: it is %s, as in %s, and a batch that fails may be "
            "duplicated; --delivery exactly-once or transactional prevents that",
            *(stored, checkpoint),
        )
    return stored or EXACTLY_ONCE


def _stored_mode(folder: Path) -> str | None:
    """The mode in a checkpoint; those of earlier versions have no identity."""
    identity = read_identity(folder)
    if identity is None:
        return EXACTLY_ONCE if (folder / OUTPUT_OFFSETS_FILE).exists() else None
    return identity.delivery
