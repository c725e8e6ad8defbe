"""A replay from the request to its end, in the order in which a command takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.model.progress import Progress, no_progress
from headwater.replay.planning import Planned, Request, make_plan
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.replay.runner import Outcome

_LOG = logging.getLogger(__name__)


class Session:
    """Spark, started when it is first asked for: most questions need none."""

    def __init__(
        self,
        settings: Settings,
        progress: Progress = no_progress,
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._spark: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._spark is None:
            from headwater.spark import create_session

            _LOG.info("starting Spark")
            self._spark = create_session(
                "headwater-replay",
                self._settings,
                connectors=("kafka", "delta"),
                progress=self._progress,
            )
        return self._spark


def run_planned(
    planned: Planned,
    request: Request,
    settings: Settings,
    session: Callable[[], SparkSession],
) -> Outcome:
    """Run what was planned; nothing if it is done, and no Spark for that."""
    from headwater.replay.runner import Outcome, run_plan

    known = planned.known
    manifest = known.manifest() if known is not None else None
    if known is not None and manifest is not None:
        return Outcome(known, manifest, new=False)
    return run_plan(planned.plan, request.logic, session(), settings, request=request.digest)


def replay(
    request: Request,
    settings: Settings,
    session: Callable[[], SparkSession],
) -> Outcome:
    """Plan and run.

    Raises:
        ReplayRefusedError: it would not be what was asked for.
        QueryFailedError: a step failed; the same request goes on with it.
    """
    planned = make_plan(request, settings, session)
    return run_planned(planned, request, settings, session)
