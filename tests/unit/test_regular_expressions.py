"""No regular expression of the product needs more than linear time for a text.

Names, messages and headers come from anyone who can write a record or an event. Python's `re`
backtracks and keeps the interpreter lock: one expression that can divide a text in many ways stops
a complete service.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests import regular_expression_times
from tests.regular_expressions import (
    Expression,
    hostile_texts,
    java_expressions,
    python_expressions,
    web_expressions,
)

CHILD = Path(regular_expression_times.__file__)
TIMEOUT_SECONDS = 90

# Expressions that only read what the operator or the service itself wrote, with the reason.
TRUSTED = {
    "src/headwater/jobs/watermark_join_job.py": "an option of the command line",
    "src/headwater/jvm/relock.py": "names of files, and the log of a pinned tool",
    "web/src/model/records.ts": "base64 from the service has at most two `=`",
}


def measured(expressions: Iterable[Expression]) -> list[str]:
    """The slow expressions; one that does not end within the time is slow as well."""
    tasks = [
        [
            f"{each.where} {each.pattern!r}.{method}",
            {"bytes": each.pattern.decode("latin-1")}
            if isinstance(each.pattern, bytes)
            else each.pattern,
            each.flags,
            method,
            sorted([h.prefix, h.pump, h.suffix] for h in hostile_texts(each)),
        ]
        for each in expressions
        for method in each.methods
    ]
    try:
        done = subprocess.run(
            [sys.executable, str(CHILD)],
            input=json.dumps(tasks),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
    except subprocess.TimeoutExpired as error:
        printed = error.stdout.decode() if isinstance(error.stdout, bytes) else ""
        return [f"no end within {TIMEOUT_SECONDS} s: {printed.splitlines()[-1]}"]
    lines = done.stdout.splitlines()
    assert len([line for line in lines if not line.startswith("slow: ")]) == len(tasks)
    trusted = tuple(f"slow: {where}" for where in TRUSTED)
    return [line for line in lines if line.startswith("slow: ") and not line.startswith(trusted)]


def test_each_expression_of_the_package_is_linear() -> None:
    expressions = list(python_expressions())
    assert len(expressions) > 60, "the search for expressions finds too few"
    assert not measured(expressions)


def test_each_expression_of_the_java_project_is_linear() -> None:
    expressions = list(java_expressions())
    assert len(expressions) > 5
    assert not measured(expressions)


def test_each_expression_of_the_page_is_linear() -> None:
    expressions = list(web_expressions())
    assert len(expressions) > 3
    assert not measured(expressions)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        # The expression that once divided the brokers of a namespace.
        (r"\w+:(?:\w+://[^:]*(?::\d+(?:,[^:]*(?::\d+)?)*)?|[^:]*):.*", "fullmatch"),
        (r"(a+)+b", "fullmatch"),
        (r"\s*\[x\]$", "search"),
    ],
)
def test_the_measurement_finds_slow_expressions(pattern: str, method: str) -> None:
    assert measured([Expression("example", pattern, 0, (method,))])


def test_the_measurement_accepts_linear_expressions() -> None:
    assert not measured([Expression("example", r"[a-z]+:(?:,[^,]*)*", 0, ("fullmatch",))])
