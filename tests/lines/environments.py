"""The Spark of this run, and environments with others, made by `make test-lines`."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from headwater.jvm.installed import line_for

LINE = line_for(pyspark.__version__)


def _needs(connector: str) -> pytest.MarkDecorator:
    reason = LINE.missing.get(connector, f"{connector} is there")
    return pytest.mark.skipif(connector in LINE.missing, reason=reason)


# For tests and parameters: connectors follow a new Spark late.
needs_delta, needs_iceberg = _needs("delta"), _needs("iceberg")
_ENVIRONMENTS = Path(__file__).parents[2] / ".venv" / "lines"


def python_of(line: str) -> Path:
    """The Python that has this line of Spark; without it the test is skipped."""
    python = _ENVIRONMENTS / line / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment with Spark {line}: run `make test-lines`")
    return python


def since(line: str) -> bool:
    """Whether the tests run with this line of Spark or a later one."""
    return _numbers(LINE.version) >= _numbers(line)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# Else Spark refuses an append by name, with and without Headwater.
fills_missing_columns = pytest.mark.skipif(
    not since("4.1"), reason="Spark 4.0 refuses an append without all columns of the table"
)
