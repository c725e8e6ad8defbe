"""A user's program: a batch or a streaming job, with and without Headwater.

    python tests/host_program.py batch|stream plain|lineage|connectors FOLDER

Prints its session settings, its results and what has changed in the process, as JSON. Imports
Headwater only where it is used, and nothing of the tests.
"""

from __future__ import annotations

import atexit
import builtins
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

NAME = "nightly"
# What the user sets in code; further settings are in spark-defaults.conf.
OWN = {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "false"}
TIMES = ["2026-03-29T01:30:00", "2026-03-29T23:30:00Z", "2026-10-25T00:15:00.5", "2026-10-24"]


def hooks() -> dict[str, Any]:
    """What a library could replace in the process of its user."""
    found: dict[str, Any] = {
        "sys.exit": sys.exit,
        "sys.excepthook": sys.excepthook,
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "sys.path": list(sys.path),
        "builtins.exit": builtins.exit,
        "builtins.quit": builtins.quit,
        "SparkSession.stop": SparkSession.stop,
        "logging.root.handlers": list(logging.getLogger().handlers),
        "logging.root.level": logging.getLogger().level,
        "warnings.filters": list(warnings.filters),
        "os.environ": dict(os.environ),
        "cwd": str(Path.cwd()),
    }
    for number in signal.valid_signals():
        found[f"signal {number:d}"] = signal.getsignal(number)
    return found


def changed(before: Mapping[str, Any]) -> list[str]:
    """Names of what has changed; the value of an environment variable by its name."""
    now = hooks()
    names = [name for name in now if now[name] != before[name] and name != "os.environ"]
    old, new = before["os.environ"], now["os.environ"]
    return names + sorted(f"${k}" for k in {*old, *new} if old.get(k) != new.get(k))


def settings_of(spark: SparkSession) -> dict[str, dict[str, str]]:
    # First: it adds the warehouse to the configuration of the context.
    runtime: Any = getattr(spark.conf, "getAll", None)
    if runtime is None:
        # Spark 3.5, where values of SQL's `SET` are partly hidden.
        runtime = {row["key"]: row["value"] for row in spark.sql("SET").collect()}
    return {"context": dict(spark.sparkContext.getConf().getAll()), "session": dict(runtime)}


def session(mode: str) -> SparkSession:
    if mode == "plain":
        builder: SparkSession.Builder = SparkSession.builder.appName(NAME)
        for key, value in OWN.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    from headwater.collector.session import create_spark_session_with_lineage

    connectors = () if mode == "lineage" else None
    return create_spark_session_with_lineage(NAME, OWN, connectors=connectors)


def days(rows: DataFrame) -> DataFrame:
    """Depends on the time zone of the session: texts without one, days, and times as text."""
    at = F.col("value").cast("timestamp")
    return rows.select("value", at.alias("at"), F.date_trunc("day", at).cast("string").alias("day"))


def run_batch(mode: str, folder: Path, before: Mapping[str, Any], report: dict[str, Any]) -> None:
    spark = session(mode)
    report["own stop"] = "stop" in vars(spark)
    report["settings"] = settings_of(spark)
    rows = spark.createDataFrame([(each,) for each in TIMES], "value string")
    days(rows).write.parquet(str(folder / "days"))
    days(rows).writeTo("lake.own.days").createOrReplace()
    report["while it runs"] = changed(before)
    written = [spark.read.parquet(str(folder / "days")), spark.table("lake.own.days")]
    for each in written:
        counted = each.groupBy("day").count().orderBy("day", "count")
        report["rows"] += [list(map(str, row)) for row in counted.collect()]
        texts = each.selectExpr("value", "cast(at AS string)", "to_json(struct(at))", "day")
        report["rows"] += [list(row) for row in texts.orderBy("value").collect()]
    report["settings at the end"] = settings_of(spark)
    spark.stop()


def run_stream(mode: str, folder: Path, before: Mapping[str, Any], report: dict[str, Any]) -> None:
    spark = session("plain")
    if mode != "plain":
        from headwater.collector.listener import track_streaming

        track_streaming(spark)
    report["settings"] = settings_of(spark)
    (folder / "in").mkdir()
    (folder / "in" / "times.txt").write_text("\n".join(TIMES))

    def write(rows: DataFrame, batch: int) -> None:
        report["while it runs"] = changed(before)
        report["settings of a batch"] = settings_of(rows.sparkSession)["session"]
        report["rows"] += [list(map(str, row)) for row in rows.orderBy("value").collect()]

    query = (
        days(spark.readStream.text(str(folder / "in")))
        .writeStream.queryName(NAME)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(write)
        .start()
    )
    query.awaitTermination()
    report["settings at the end"] = settings_of(spark)
    spark.stop()


def main(kind: str, mode: str, folder: str) -> None:
    before = hooks()
    report: dict[str, Any] = {"rows": []}

    def at_exit() -> None:
        report["at exit"] = changed(before)
        print(json.dumps(report))

    # Registered first, so called last.
    atexit.register(at_exit)
    run = run_batch if kind == "batch" else run_stream
    run(mode, Path(folder), before, report)
    report["after it"] = changed(before)


if __name__ == "__main__":
    main(*sys.argv[1:])
