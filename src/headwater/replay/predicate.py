"""A user's predicate: read by Spark as one expression, and refused unless it is only that.

Text from a command line never becomes part of a statement. What it may do is compare: no
subquery, no function of anybody's own, none that calls into Java, and nothing whose answer
depends on the clock or on chance, because a replay that is resumed must choose the same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.errors import InputError

_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
# Refused by name: to look at their arguments, Spark loads the class that they call.
_INTO_JAVA = {"reflect", "java_method", "try_reflect"}
# By the names of Spark's own classes.
_REFUSED = {
    "ScalaUDF": "is not one of Spark's own functions",
    "PythonUDF": "is not one of Spark's own functions",
    "CurrentDate": "asks the clock",
    "CurrentTime": "asks the clock",
    "CurrentTimestamp": "asks the clock",
    "LocalTimestamp": "asks the clock",
    "Now": "asks the clock",
}
_MAX_LENGTH = 10_000


def checked_predicate(rows: DataFrame, text: str) -> Column:
    """The predicate as a condition on these rows.

    Raises:
        InputError: it is no boolean expression of these columns, or one that is not allowed.
    """
    if len(text) > _MAX_LENGTH:
        raise _refused(f"longer than {_MAX_LENGTH} characters", rows)
    try:
        with _without_log():
            _refuse_unresolved(_parser(rows).parseExpression(text), rows)
            condition = F.expr(text)
            analysed = rows.where(condition)._jdf.queryExecution().analyzed()  # noqa: SLF001
    except (ParseException, AnalysisException) as error:
        raise _refused(_first_line(str(error)), rows) from None
    _refuse_resolved(analysed.condition(), rows)
    return condition


def _parser(rows: DataFrame) -> Any:
    return rows.sparkSession._jsparkSession.sessionState().sqlParser()  # noqa: SLF001


def _refuse_unresolved(expression: Any, rows: DataFrame) -> None:
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001
    subquery = jvm.java.lang.Class.forName(_SUBQUERY)
    for one in _walk(expression):
        if subquery.isInstance(one):
            raise _refused("it holds a subquery", rows)
        if one.getClass().getSimpleName() == "UnresolvedFunction":
            name = one.nameParts().last().lower()
            if name in _INTO_JAVA:
                raise _refused(f"`{name}` calls into Java", rows)


def _refuse_resolved(condition: Any, rows: DataFrame) -> None:
    for one in _walk(condition):
        reason = _REFUSED.get(one.getClass().getSimpleName())
        if reason is not None:
            raise _refused(f"`{one.prettyName()}` {reason}", rows)
    if not condition.deterministic():
        raise _refused("its answer depends on chance or on how the rows are divided", rows)


def _walk(expression: Any) -> Iterator[Any]:
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        yield one
        children = one.children()
        waiting.extend(children.apply(place) for place in range(children.size()))


@contextmanager
def _without_log() -> Iterator[None]:
    """A predicate that is refused is told in a line; pyspark would log a page of JSON as well."""
    logger = logging.getLogger("SQLQueryContextLogger")
    kept = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = kept


def _refused(what: str, rows: DataFrame) -> InputError:
    return InputError(
        f"--where: {what}",
        hint=f"a comparison of the columns {', '.join(rows.columns)}, such as `partition = 0`",
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "not an expression")
