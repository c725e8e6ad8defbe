"""Jobs of users, started by `spark-submit` with row lineage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from tests.support import environment, java_of_spark

from headwater.jvm.jars import session_jars
from headwater.settings import Settings

BIN = Path(pyspark.__file__).parent / "bin"
EXTENSION = {"spark.sql.extensions": "dev.headwater.RowLineageExtension"}


def submit(
    settings: Settings,
    log: Path,
    job: list[str],
    *,
    master: str = "local[2]",
    configuration: Mapping[str, str] | None = None,
    connectors: tuple[str, ...] = ("kafka",),
) -> subprocess.Popen[bytes]:
    """Start `job`, a file or jar with its arguments, after options such as `--class`."""
    jars = ",".join(map(str, session_jars(connectors, settings)))
    command = [str(BIN / "spark-submit"), "--master", master, "--jars", jars]
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **EXTENSION,
        **(configuration or {}),
    }.items():
        command += ["--conf", f"{name}={value}"]
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("ab") as output:
        return subprocess.Popen(
            [*command, *job],
            stdout=output,
            stderr=output,
            cwd=log.parent,
            start_new_session=True,
            env=environment(settings, **variables, **java_of_spark(settings)),
        )
