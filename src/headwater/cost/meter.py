"""Reads what a run has used so far from a listener inside the JVM: one call, no job of its own.

The listener (`java/`) adds up each task for the streaming query and for the run that it belongs to,
so that several queries in one session are told apart. It counts from the first meter of a session
on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.cost.usage import FACET, Usage, cost_facet
from headwater.errors import MissingPartError
from headwater.openlineage.run import LineageRun
from headwater.settings import Settings

# As in the listener.
_RUN = "headwater.cost.run"
# Spark tells its listeners of tasks behind their end, in a thread of its own.
_WAIT_MILLIS = 2000


class CostMeter:
    """The cost of one run. `owner` is its id, or that of a streaming query."""

    def __init__(self, spark: SparkSession, owner: str, settings: Settings) -> None:
        """
        Raises:
            MissingPartError: Headwater's own jar is not on Spark's class path.
        """
        self._spark = spark
        self._owner = owner
        self._settings = settings
        self._listener = _listener(spark)
        self._before = self._told()

    @classmethod
    def of_query(cls, query: StreamingQuery, spark: SparkSession, settings: Settings) -> CostMeter:
        """Of a query that runs already, from now on."""
        meter = cls(spark, str(query.id), settings)
        meter._settle()
        meter._before = meter._told()
        return meter

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Jobs that the body starts in this thread count, and the queries that it starts."""
        context = self._spark.sparkContext
        before = context.getLocalProperty(_RUN)
        context.setLocalProperty(_RUN, self._owner)
        try:
            yield
        finally:
            # PySpark's types ask for a text; Spark takes null for "not set".
            context.setLocalProperty(_RUN, before)  # type: ignore[arg-type]

    def usage(self, *, settled: bool = False) -> Usage:
        """What was used since the meter was made.

        Args:
            settled: wait, for two seconds at most, until Spark has told of all tasks that ended.
        """
        if settled:
            self._settle()
        return self._told().since(self._before)

    def tell(self, run: LineageRun, *, settled: bool = False) -> None:
        """Make it a facet of the run's next events."""
        run.add_run_facet(FACET, cost_facet(self.usage(settled=settled), self._settings))

    def _told(self) -> Usage:
        return Usage.told(list(self._listener.usage(self._owner)))

    def _settle(self) -> None:
        bus = self._spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
        try:
            bus.waitUntilEmpty(_WAIT_MILLIS)
        except Exception:  # noqa: S110 - a busy bus: what is known is told
            pass


def _listener(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    found = getattr(context._jvm, "headwater.cost.CostListener")  # noqa: SLF001
    if not isinstance(found, JavaClass):
        # py4j takes an unknown class for a package.
        raise MissingPartError(
            "Headwater's own jar is not on Spark's class path",
            hint='spark-submit --jars "$(headwater jars path)" …',
        )
    return found.of(context._jsc.sc())  # noqa: SLF001
