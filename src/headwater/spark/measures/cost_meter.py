"""Reads what a run has used so far from a listener inside the JVM: one call, no job of its own.

The listener (`java/`) adds up each task for the run and the job group that it belongs to, so that
several queries in one session are told apart. It counts from the first meter of a session on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import NotInstalledError
from headwater.openlineage.run import LineageRun
from headwater.settings import Settings
from headwater.spark.measures.cost import FACET, Usage, cost_facet

# As in the listener.
_RUN = "headwater.cost.run"
_BATCH_RUN = "headwater.cost.batch-run"
# Spark tells its listeners of tasks behind their end, in a thread of its own.
_WAIT_MILLIS = 2000


class CostMeter:
    """The cost of one run.

    Args:
        owner: the run's id; or a job group's name, of a streaming query its `runId`. Each start
            of a run needs one of its own.
    """

    def __init__(self, spark: SparkSession | SparkContext, owner: str, settings: Settings) -> None:
        """
        Raises:
            MissingPartError: Headwater's own jar is not on Spark's class path.
        """
        self._context: Any = spark if isinstance(spark, SparkContext) else spark.sparkContext
        self._owner = owner
        self._settings = settings
        self._listener = _listener(self._context)

    @contextmanager
    def counting(self, *, queries: bool = True) -> Iterator[None]:
        """Jobs that the body starts in this thread count.

        Args:
            queries: whether streaming queries that it starts do, too; if not, each is a run of its
                own.
        """
        mark = _RUN if queries else _BATCH_RUN
        before = self._context.getLocalProperty(mark)
        self._context.setLocalProperty(mark, self._owner)
        try:
            yield
        finally:
            self._context.setLocalProperty(mark, before)

    def usage(self, *, settled: bool = False) -> Usage:
        """What was used so far.

        Args:
            settled: wait, for two seconds at most, until Spark has told of all tasks that ended.
        """
        if settled:
            self.settle()
        return Usage.told(list(self._listener.usage(self._owner)))

    def settle(self) -> bool:
        """Wait, for two seconds at most, until Spark has told of all tasks that ended; whether it
        has."""
        return bool(self._listener.settle(_WAIT_MILLIS))

    def tell(self, run: LineageRun, *, settled: bool = False) -> None:
        """Make it a facet of the run's next events."""
        run.add_run_facet(FACET, cost_facet(self.usage(settled=settled), self._settings))


def _listener(context: Any) -> Any:
    found = getattr(context._jvm, "headwater.cost.CostListener")  # noqa: SLF001
    if not isinstance(found, JavaClass):
        # py4j takes an unknown class for a package.
        raise NotInstalledError(
            "Headwater's own jar is not on Spark's class path",
            hint='spark-submit --jars "$(headwater jars path)" …',
        )
    return found.of(context._jsc.sc())  # noqa: SLF001
