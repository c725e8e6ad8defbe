"""A user's client of Spark Connect: plain PySpark that knows nothing of Headwater.

    python tests/connect_job.py REMOTE SERVERS FOLDER TOPIC [KEY=VALUE ...] QUERY:OUTPUT ...

Sets the keys in its session and runs the queries at the same time until all records are read. Each
writes the numbers that a row is made of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PER_BATCH = 40
ATTEMPTS = 6


def read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_BATCH)
        .load()
    )
    fields = F.from_json(F.col("value").cast("string"), "n int, k int, t bigint")
    rows = source.select(fields.alias("r")).select("r.n", "r.k", F.timestamp_seconds("r.t"))
    return rows.toDF("n", "k", "t")


def copied(rows: DataFrame) -> DataFrame:
    return rows.where("k < 7").select(F.col("n").cast("string").alias("value"))


def listed(groups: Any) -> DataFrame:
    rows: DataFrame = groups.agg(F.sort_array(F.collect_set("n")).alias("ns"))
    return rows.select(F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value"))


def windowed(rows: DataFrame) -> DataFrame:
    return listed(rows.withWatermark("t", "1 second").groupBy("k", F.window("t", "20 seconds")))


def in_sql(rows: DataFrame) -> DataFrame:
    rows.createOrReplaceTempView("numbered")
    return rows.sparkSession.sql(
        "SELECT concat('number ', n) AS value FROM numbered WHERE n % 3 = 0"
    )


def with_udf(rows: DataFrame) -> DataFrame:
    return rows.select(F.udf(lambda n: f"<{n}>")("n").alias("value"))


def in_pandas(rows: DataFrame) -> DataFrame:
    def changed(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"value": frame["n"].astype(str)})

    return rows.select("n").mapInPandas(changed, "value string")


def in_batches(servers: str, output: str) -> Callable[[DataFrame, int], None]:
    """Writes each batch three times; the server runs it in a process with another session."""

    def write(batch: DataFrame, _: int) -> None:
        assert batch.columns == ["n", "k", "t"], batch.columns
        batch.createOrReplaceTempView("batch")
        ones = batch.sparkSession.sql("SELECT CAST(n AS STRING) AS value FROM batch WHERE k = 0")
        for rows in (ones, listed(batch.groupBy("k")), with_udf(batch.dropDuplicates(["k"]))):
            rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option(
                "topic", output
            ).save()

    return write


def checkpointed(servers: str, output: str) -> Callable[[DataFrame, int], None]:
    """Writes rows of which Spark has forgotten how they were made."""

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.where("n >= 0").localCheckpoint()
        for each in (rows, batch.localCheckpoint()):
            each.select(F.col("n").cast("string").alias("value")).write.format("kafka").option(
                "kafka.bootstrap.servers", servers
            ).option("topic", output).save()

    return write


IN_BATCHES = {"in_batches": in_batches, "checkpointed": checkpointed}
QUERIES = {each.__name__: each for each in (copied, windowed, in_sql, with_udf, in_pandas)}


def start(
    spark: SparkSession, name: str, output: str, servers: str, folder: str, topic: str
) -> Any:
    rows = read(spark, servers, topic)
    if name in IN_BATCHES:
        write = IN_BATCHES[name](servers, output)
        stream = rows.writeStream.foreachBatch(write).queryName(name)
    elif name == "unnamed":
        stream = copied(rows).writeStream.format("kafka")
    else:
        stream = QUERIES[name](rows).writeStream.format("kafka").queryName(name)
    stream = (
        stream.option("kafka.bootstrap.servers", servers)
        .option("topic", output)
        .option("checkpointLocation", f"{folder}/{name}")
        .trigger(availableNow=True)
    )
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return stream.start()
        except PySparkException as error:
            # Spark gives the process of foreachBatch ten seconds, which a busy machine exceeds.
            if attempt == ATTEMPTS or "failed to connect back" not in str(error):
                raise
    return None


def main(remote: str, servers: str, folder: str, topic: str, *arguments: str) -> None:
    spark = SparkSession.builder.appName("of_the_client").remote(remote).getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
    assert "headwater" not in sys.modules
    started = []
    for each in arguments:
        if "=" in each:
            spark.conf.set(*each.split("=", 1))
        else:
            name, output = each.split(":")
            started.append(start(spark, name, output, servers, folder, topic))
    for query in started:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
