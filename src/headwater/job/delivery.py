"""The delivery mode of each query of a job, and what a mode needs of its rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from headwater.delivery.default_mode import default_mode
from headwater.delivery.modes import ExactlyOnce, Mode, delivery_mode
from headwater.errors import InputError
from headwater.spark.row_lineage import EXACT, RowsWithLineage, add_row_lineage


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
        found = add_row_lineage(rows)
        mode = self._named
        if mode is None:
            name = default_mode(rows.sparkSession, checkpoint, _why_not_identified(found))
            mode = delivery_mode(name)
        refuse_unidentified(found, mode)
        return found, mode


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
