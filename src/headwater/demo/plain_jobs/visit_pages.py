"""Time and page of each visit: spark-submit visit_pages.py INPUT OUTPUT CHECKPOINT."""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

KAFKA = json.loads(os.environ["KAFKA_OPTIONS"])


def main(source: str, output: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("visit_pages").getOrCreate()
    visits = (
        spark.readStream.format("kafka")
        .options(**KAFKA)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    fields = "visit_id string, event_time string, page string"
    visit = F.from_json(visits.value.cast("string"), fields)
    pages = visits.select("key", F.to_json(visit).alias("value"))
    query = (
        pages.writeStream.format("kafka")
        .options(**KAFKA)
        .option("topic", output)
        .option("checkpointLocation", checkpoint)
        .queryName("visit_pages")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
