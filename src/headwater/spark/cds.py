"""Makes the archive of Spark's classes (see `jvm.class_archive`) by running small jobs."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError, NotInstalledError
from headwater.jvm.cds import archive_path, outdated, write_options
from headwater.jvm.java import SHORT_LIVED, Java, find_java
from headwater.settings import Settings
from headwater.spark.session import create_session

# The archive is written when Java ends; on a busy machine that takes a minute.
_END_SECONDS = 300
_STREAM_SECONDS = 120
_VERSION_SECONDS = 60

# Nothing of Headwater's own jar: with a class of it, the archive would fit only where that jar
# follows Spark's at once, without a connector in between.
_SPARKS_OWN = {
    "spark.master": "local[2]",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def make_class_archive(settings: Settings, *, again: bool = False) -> Path:
    """Run some small jobs in a Java of their own, and keep the classes that they needed.

    One that is there is left as it is, unless it is to be made again. A new one takes the place
    of those from before an update.

    Raises:
        InputError: the path of the cache has a space, which Java's options can't have.
        MissingPartError: no Java, or one that can't write an archive.
    """
    java = find_java(settings)
    path = archive_path(java, settings)
    if " " in str(path):
        raise InputError(
            f"no archive can be used in {str(path.parent)!r}: its path has a space",
            hint="set XDG_CACHE_HOME to a folder without one",
        )
    if path.is_file() and not again:
        return path
    _refuse_one_that_cannot(java)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        once = {"java_options": f"{write_options(unfinished)} {SHORT_LIVED}"}
        spark = create_session(
            "class-archive",
            settings.model_copy(update={"spark": settings.spark.model_copy(update=once)}),
            # None: their jars come behind Spark's, so that one archive serves any set of them.
            connectors=(),
            additional_configs=_SPARKS_OWN,
        )
        _use_what_jobs_use(spark, Path(folder))
        _end_with_its_java(spark)
        if not unfinished.is_file():
            raise _no_archive(java)
        unfinished.replace(path)
    for other in outdated(path):
        other.unlink(missing_ok=True)
    return path


def _refuse_one_that_cannot(java: Java) -> None:
    """What a Java writes goes on top of the archive of its own classes, which not all have."""
    shares = [str(java.binary), "-Xshare:on", "-version"]
    done = subprocess.run(shares, capture_output=True, timeout=_VERSION_SECONDS, check=False)
    if done.returncode:
        raise _no_archive(java)


def _no_archive(java: Java) -> NotInstalledError:
    return NotInstalledError(
        f"{java.binary} writes no archive of classes",
        hint="one without an archive of its own (lib/server/classes.jsa) can't; set "
        "JAVA_HOME to another, or do without: jobs start all the same",
        java=str(java.binary),
    )


def _use_what_jobs_use(spark: SparkSession, folder: Path) -> None:
    """The common parts: expressions, JSON, files, a join, a shuffle, a stream with state."""
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


def _end_with_its_java(spark: SparkSession) -> None:
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    spark.stop()
    # What Python started ends when its input does.
    gateway.proc.stdin.close()
    gateway.proc.wait(_END_SECONDS)
