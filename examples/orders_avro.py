"""Avro orders of a schema registry, filtered; the session and the source options are your own.

The topic `orders` has records with an Avro value after five bytes for the id of its schema.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from headwater import LineageJob

SCHEMA = """{"type": "record", "name": "order", "fields": [
    {"name": "order_id", "type": "string"}, {"name": "amount", "type": "double"}]}"""


def clean(orders: DataFrame) -> DataFrame:
    order = from_avro(F.expr("substring(value, 6)"), SCHEMA)
    rows = orders.select("key", order.alias("order")).where("order.amount > 0")
    return rows.select("key", to_avro("order", SCHEMA).alias("value"))


if __name__ == "__main__":
    with LineageJob("orders_avro", version="1.4.0", connectors=("kafka", "avro")) as job:
        orders = job.read("orders", minPartitions=4, failOnDataLoss=False)
        job.write(clean(orders), "orders-clean", trigger={"availableNow": True})
