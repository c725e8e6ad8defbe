"""The benchmark of plain jobs: its records, its options, and the time of the rule."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from click.testing import CliRunner

from headwater.bench import rewrite, unchanged
from headwater.cli.app import headwater


def test_records_have_400_bytes_that_lz4_can_hardly_compress() -> None:
    chance = random.Random(1)  # noqa: S311
    values = [unchanged._value(number, chance) for number in (0, 7, 399_999) for _ in range(50)]
    assert {len(value) for value in values} == {400}
    assert json.loads(values[-1])["n"] == 399_999
    content = b"".join(values)
    assert pa.compress(content, codec="lz4_raw").size > 0.75 * len(content)


def test_the_time_of_the_rule_is_that_of_runs_that_changed_a_plan() -> None:
    report = (
        "\n=== Metrics of Analyzer/Optimizer Rules ===\n"
        "Rule                                       Effective Time / Total Time\n"
        "dev.headwater.rowlineage.WriteRule         1200 / 3400                 1 / 2\n"
        "org.apache.spark.sql.Other                 1 / 5                       1 / 2\n"
    )
    assert rewrite._spent(report) == 1200
    for other in ("", report.replace("1200", "0")):
        with pytest.raises(RuntimeError, match="not rewritten"):
            rewrite._spent(other)


def test_options_of_one_benchmark_are_refused_for_others() -> None:
    result = CliRunner().invoke(headwater, ["bench", "trace", "--records", "5000"])
    assert "options of `bench unchanged`" in f"{result.output}{result.exception}"
    assert result.exit_code != 0
