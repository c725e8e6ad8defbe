"""A query in SQL on a topic: spark-submit sql_job.py FILE INPUT OUTPUT CHECKPOINT."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

KAFKA = json.loads(os.environ["KAFKA_OPTIONS"])


def main(file: str, source: str, output: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName(Path(file).stem).getOrCreate()
    (
        spark.readStream.format("kafka")
        .options(**KAFKA)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .createOrReplaceTempView("visits")
    )
    query = (
        spark.sql(Path(file).read_text(encoding="utf-8"))
        .writeStream.format("kafka")
        .options(**KAFKA)
        .option("topic", output)
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .queryName(Path(file).stem)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
