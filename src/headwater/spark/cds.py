"""Creates the CDS archive of Spark's classes (see `jvm.jars`) by running small jobs."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError, NotInstalledError
from headwater.jvm.installed import SHORT_LIVED, Java, find_java
from headwater.jvm.jars import cds_archive_path, cds_write_options, outdated_cds_archives
from headwater.settings import Settings
from headwater.spark.session import create_session

# Java writes the archive on exit; on a busy machine that takes a minute.
_EXIT_SECONDS = 300
_STREAM_SECONDS = 120
_VERSION_SECONDS = 60

# No classes of Headwater's jar: an archive with one of them would be valid only if that jar
# directly follows Spark's jars, without a connector in between.
_SPARK_DEFAULTS = {
    "spark.master": "local[2]",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def write_cds_archive(settings: Settings, *, again: bool = False) -> Path:
    """Run small jobs in a separate JVM, and archive the classes that they loaded.

    An existing archive is kept unless `again` is set. A new one replaces outdated ones.

    Raises:
        InputError: the path of the cache contains a space, which Java's options do not allow.
        NotInstalledError: there is no Java, or it can't write an archive.
    """
    java = find_java(settings)
    path = cds_archive_path(java, settings)
    if " " in str(path):
        raise InputError(
            f"a CDS archive can't be in {str(path.parent)!r}: the path contains a space",
            hint="set XDG_CACHE_HOME to a folder without spaces",
        )
    if path.is_file() and not again:
        return path
    _check_java(java)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        with_option = {"java_options": f"{cds_write_options(unfinished)} {SHORT_LIVED}"}
        spark = create_session(
            "cds",
            settings.model_copy(update={"spark": settings.spark.model_copy(update=with_option)}),
            # Jars of connectors follow Spark's, so that one archive is valid for any set of them.
            connectors=(),
            additional_configs=_SPARK_DEFAULTS,
        )
        _load_common_classes(spark, Path(folder))
        _stop_with_jvm(spark)
        if not unfinished.is_file():
            raise _no_archive(java)
        unfinished.replace(path)
    for other in outdated_cds_archives(path):
        other.unlink(missing_ok=True)
    return path


def _check_java(java: Java) -> None:
    """Refuse a Java without the default CDS archive, which the new one is based on."""
    command = [str(java.binary), "-Xshare:on", "-version"]
    done = subprocess.run(command, capture_output=True, timeout=_VERSION_SECONDS, check=False)
    if done.returncode:
        raise _no_archive(java)


def _no_archive(java: Java) -> NotInstalledError:
    return NotInstalledError(
        f"{java.binary} can't write a CDS archive",
        hint="its default archive (lib/server/classes.jsa) is missing; set JAVA_HOME to another "
        "Java, or skip this: jobs run without it",
        java=str(java.binary),
    )


def _load_common_classes(spark: SparkSession, folder: Path) -> None:
    """Expressions, JSON, files, a join, a shuffle, a stream with state."""
    numbers = spark.range(1000).select("id", F.to_json(F.struct("id")).alias("text"))
    numbers.write.parquet(str(folder / "numbers"))
    read = spark.read.parquet(str(folder / "numbers"))
    read = read.select("id", F.from_json("text", "id long").alias("parsed"))
    read.join(numbers, "id").groupBy(F.col("id") % 7).count().orderBy("count").collect()
    ticks = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    query = (
        ticks.groupBy("timestamp")
        .count()
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(_STREAM_SECONDS)
    query.stop()


def _stop_with_jvm(spark: SparkSession) -> None:
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    spark.stop()
    # The JVM exits when its standard input is closed.
    gateway.proc.stdin.close()
    gateway.proc.wait(_EXIT_SECONDS)
