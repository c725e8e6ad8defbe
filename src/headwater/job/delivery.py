"""The delivery mode of each query of a job, and what a mode needs of its rows.

A query whose user names no mode has that of its checkpoint. A new one is exactly-once where that
can be guaranteed, and otherwise transactional.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headwater.delivery.modes import ExactlyOnce, Mode, Transactional, delivery_mode
from headwater.delivery.output_offsets import obstacle_in
from headwater.errors import InputError
from headwater.spark.query_runner import local_checkpoint
from headwater.spark.row_lineage import EXACT, RowsWithLineage, add_row_lineage
from headwater.spark.source import LINEAGE_COLUMN
from headwater.storage.checkpoint import OUTPUT_OFFSETS_FILE, read_identity

_LOG = logging.getLogger(__name__)

_READ_COMMITTED = "its consumers need isolation.level=read_committed"


class JobDelivery:
    """The mode that a job names; without a name, each query has the default for its rows.

    Raises:
        InputError: no mode has this name.
    """

    def __init__(self, named: str | Mode | None) -> None:
        self._named = delivery_mode(named) if isinstance(named, str) else named

    @property
    def usual(self) -> Mode:
        """The mode before a query is known: it configures the session and the sources."""
        return self._named or ExactlyOnce()

    def of(self, rows: DataFrame, checkpoint: Path | str) -> tuple[RowsWithLineage, Mode]:
        """The rows with the column `lineage`, which is added where they don't have it, and the
        mode of the query that writes them.

        Raises:
            InputError: no row comes from Kafka; or the named or stored mode finds records by their
                parents, and these are not known exactly, or several rows may have the same.
            CheckpointError: the checkpoint is damaged.
        """
        found = _with_lineage(rows)
        mode = self._named
        if mode is None:
            name = default_mode(rows.sparkSession, checkpoint, _why_not_identified(found))
            mode = delivery_mode(name)
        refuse_unidentified(found, mode)
        return found, mode


def _with_lineage(rows: DataFrame) -> RowsWithLineage:
    if LINEAGE_COLUMN in rows.columns and not rows.schema[LINEAGE_COLUMN].metadata:
        # Kept by the job; `with_row_lineage` would have described it.
        return RowsWithLineage(rows)
    return add_row_lineage(rows)


def _why_not_identified(found: RowsWithLineage) -> str | None:
    """Why records can't be found by their parents; None if they can."""
    if found.coverage.kind != EXACT:
        return f"exact parents are not known after {', '.join(found.coverage.steps)}"
    if found.shared_by is not None:
        return f"several rows may have the same parents after {found.shared_by}"
    return None


def refuse_unidentified(found: RowsWithLineage, mode: Mode) -> None:
    """Refuse rows that a mode which finds records by their parents can't find.

    Raises:
        InputError: names the step of the query.
    """
    why = _why_not_identified(found) if mode.identifies_records else None
    if why is None:
        return
    if found.coverage.kind != EXACT:
        hint = "let the function keep the column `lineage`, or use another delivery mode, such as "
        hint += "transactional"
    else:
        hint = "add a column `ordinal` whose numbers differ between rows of the same parents, or "
        hint += "use delivery=transactional"
    raise InputError(f"{mode.name} delivery finds records by their parents, but {why}", hint=hint)


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
        return Transactional.name
    if stored == Transactional.name:
        _LOG.info(
            "no delivery mode is named: it is transactional, as in %s, and %s",
            *(checkpoint, _READ_COMMITTED),
        )
    elif stored not in (None, ExactlyOnce.name):
        _LOG.warning(
            "no delivery mode is named: it is %s, as in %s, and a batch that fails may be "
            "duplicated; --delivery exactly-once or transactional prevents that",
            *(stored, checkpoint),
        )
    return stored or ExactlyOnce.name


def _stored_mode(folder: Path) -> str | None:
    """The mode in a checkpoint; those of earlier versions have no identity."""
    identity = read_identity(folder)
    if identity is None:
        return ExactlyOnce.name if (folder / OUTPUT_OFFSETS_FILE).exists() else None
    return identity.delivery
