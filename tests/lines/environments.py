"""The Spark of this run, and environments with others, made by `make test-lines`."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from headwater.jvm.versions import line_for

LINE = line_for(pyspark.__version__)
# For tests and parameters: Iceberg's runtime follows a new Spark late.
needs_iceberg = pytest.mark.skipif(
    "iceberg" in LINE.missing, reason=LINE.missing.get("iceberg", "Iceberg is there")
)
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
    not since("4.0"), reason="Spark 3.5 refuses an append without all columns of the table"
)
