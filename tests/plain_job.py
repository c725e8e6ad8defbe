"""A user's streaming job for `spark-submit`: plain PySpark that knows nothing of Headwater.

    spark-submit tests/plain_job.py SERVERS FOLDER PER_BATCH QUERY:LEFT:RIGHT:OUTPUT ...

Runs the queries at the same time until all records are read. Each writes the numbers that a row is
made of. Options of the sink are in the configuration, after `spark.plain.sink.`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def read(spark: SparkSession, servers: str, topic: str, per_batch: str) -> DataFrame:
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )
    fields = F.from_json(F.col("value").cast("string"), "n int, k int, t bigint")
    rows = source.select(fields.alias("r")).select("r.n", "r.k", F.timestamp_seconds("r.t"))
    return rows.toDF("n", "k", "t")


def text(*columns: str) -> Any:
    return F.concat_ws(",", *(F.col(each).cast("string") for each in columns)).alias("value")


def copied(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.select(text("n"))


def deduplicated(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.dropDuplicates(["k"]).select(text("n"))


def windowed(left: DataFrame, right: DataFrame) -> DataFrame:
    groups = left.withWatermark("t", "1 second").groupBy("k", F.window("t", "20 seconds"))
    return collected(groups)


def collected(groups: Any) -> DataFrame:
    rows: DataFrame = groups.agg(F.sort_array(F.collect_set("n")).alias("ns"))
    return rows.select(F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value"))


def joined(left: DataFrame, right: DataFrame) -> DataFrame:
    other = right.where("n % 2 = 0").toDF("m", "l", "u").withWatermark("u", "1 second")
    both = left.withWatermark("t", "1 second").join(
        other, F.expr("l = k AND u BETWEEN t AND t + INTERVAL 1 SECOND"), "leftOuter"
    )
    return both.select(text("n", "m"))


def in_pandas(left: DataFrame, right: DataFrame) -> DataFrame:
    def changed(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"value": frame["n"].astype(str)})

    return left.select("n").mapInPandas(changed, "value string")


def in_batches(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.where("n >= 0")


def written(sink: dict[str, str], batch: DataFrame, _: int) -> None:
    """What the query `in_batches` does in its foreachBatch."""
    collected(batch.groupBy("k")).write.format("kafka").options(**sink).save()


QUERIES = {
    each.__name__: each for each in (copied, deduplicated, windowed, joined, in_pandas, in_batches)
}


def main(servers: str, folder: str, per_batch: str, *queries: str) -> None:
    spark = SparkSession.builder.appName("plain").getOrCreate()
    prefix = "spark.plain.sink."
    configured = spark.sparkContext.getConf().getAll()
    options = {key.removeprefix(prefix): v for key, v in configured if key.startswith(prefix)}
    started = []
    for each in queries:
        name, left, right, output = each.split(":")
        rows = QUERIES[name](
            read(spark, servers, left, per_batch), read(spark, servers, right, per_batch)
        )
        sink = {"kafka.bootstrap.servers": servers, "topic": output, **options}
        writer = (
            rows.writeStream.option("checkpointLocation", f"{folder}/{name}")
            .queryName(name)
            .trigger(availableNow=True)
        )
        if name == "in_batches":
            writer = writer.foreachBatch(partial(written, sink))
        else:
            writer = writer.format("kafka").options(**sink)
        started.append(writer.start())
    for query in started:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
