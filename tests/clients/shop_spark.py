"""The program of test_spark_listener.py: plain PySpark, submitted with the listener's jar."""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

FOLDER = sys.argv[1]
ORDERS = "id int, status string, amount int"


def write_tables(spark: SparkSession) -> None:
    rows = [(1, "paid", 10), (2, "open", 20), (3, "paid", 30)]
    spark.createDataFrame(rows, ORDERS).write.parquet(f"{FOLDER}/orders")
    orders = spark.read.parquet(f"{FOLDER}/orders")
    revenue = orders.groupBy("status").agg(F.sum("amount").alias("total"))
    revenue.write.parquet(f"{FOLDER}/revenue")
    try:
        rates = orders.select("id", F.raise_error(F.lit("no rates for today")).alias("rate"))
        rates.write.parquet(f"{FOLDER}/never")
    except PySparkException as error:
        print(f"failed as expected: {type(error).__name__}")


def count_lines(spark: SparkSession) -> None:
    print(spark.sparkContext.textFile(f"{FOLDER}/orders").count(), "lines")


def copy_as_a_stream(spark: SparkSession) -> None:
    """Two micro-batches of one query: one for each of two files."""
    files = spark.readStream.schema(ORDERS).option("maxFilesPerTrigger", 1)
    query = (
        files.parquet(f"{FOLDER}/orders")
        .writeStream.queryName("copy")
        .option("checkpointLocation", f"{FOLDER}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{FOLDER}/copied")
    )
    query.awaitTermination()
    print(sum(each["numInputRows"] > 0 for each in query.recentProgress), "micro-batches")


if __name__ == "__main__":
    session = SparkSession.builder.appName("shop").getOrCreate()
    write_tables(session)
    count_lines(session)
    copy_as_a_stream(session)
    session.stop()
    print("imported:", "headwater" in sys.modules)
