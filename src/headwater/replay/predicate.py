"""A user's predicate: parsed by Spark as one expression, and refused unless it only compares.

Text from a command line never becomes part of a statement. Refused are subqueries, user-defined
functions, functions that call into Java, and everything that depends on the clock or on chance,
because a replay that is resumed must select the same rows.
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
from headwater.spark.compat import check_json_path

_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
# Refused by name, before analysis: Spark loads the class that they call to check the arguments.
_INTO_JAVA = {"reflect", "java_method", "try_reflect"}
# By the names of Spark's expression classes.
_REFUSED = {
    "ScalaUDF": "is not one of Spark's own functions",
    "PythonUDF": "is not one of Spark's own functions",
    "CurrentDate": "depends on the clock",
    "CurrentTime": "depends on the clock",
    "CurrentTimestamp": "depends on the clock",
    "LocalTimestamp": "depends on the clock",
    "Now": "depends on the clock",
}
_MAX_LENGTH = 10_000


def checked_predicate(rows: DataFrame, text: str) -> Column:
    """The predicate as a condition on these rows.

    Raises:
        InputError: not a boolean expression of these columns, or one that is not allowed.
    """
    if len(text) > _MAX_LENGTH:
        raise _refused(f"longer than {_MAX_LENGTH} characters", rows)
    check_json_path(text)
    try:
        with _without_spark_log():
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
    for node in _walk(expression):
        if subquery.isInstance(node):
            raise _refused("it contains a subquery", rows)
        if node.getClass().getSimpleName() == "UnresolvedFunction":
            name = node.nameParts().last().lower()
            if name in _INTO_JAVA:
                raise _refused(f"`{name}` calls into Java", rows)


def _refuse_resolved(condition: Any, rows: DataFrame) -> None:
    for node in _walk(condition):
        reason = _REFUSED.get(node.getClass().getSimpleName())
        if reason is not None:
            raise _refused(f"`{node.prettyName()}` {reason}", rows)
    if not condition.deterministic():
        raise _refused("its value depends on chance or on how the rows are partitioned", rows)


def _walk(expression: Any) -> Iterator[Any]:
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        children = node.children()
        pending.extend(children.apply(index) for index in range(children.size()))


@contextmanager
def _without_spark_log() -> Iterator[None]:
    """Disable pyspark's log of a refused predicate: a page of JSON in addition to the error."""
    logger = logging.getLogger("SQLQueryContextLogger")
    previous = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = previous


def _refused(what: str, rows: DataFrame) -> InputError:
    return InputError(
        f"--where: {what}",
        hint=f"a comparison of the columns {', '.join(rows.columns)}, such as `partition = 0`",
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "not an expression")
