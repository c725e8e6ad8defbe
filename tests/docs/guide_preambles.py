"""What the pages expect their readers to have: names that a page uses before it defines them."""

from __future__ import annotations

_SCHEMA = """
SCHEMA = '{"type": "record", "name": "payment", "fields": [{"name": "order_id", "type": "string"}]}'
"""
# Orders and payments with a time, under the names that a condition of a join uses.
_STREAMS = """
def stream(topic, *columns):
    rows = job.read(topic).withColumn("at", F.col("timestamp")).withColumn("shop", F.col("key"))
    return rows.withWatermark("timestamp", "1 minute").select(
        "key", "value", "timestamp", "at", "shop", "lineage", *columns
    ).alias(topic)

def score(frames):
    yield from frames
"""
PREAMBLES = {
    "docs/guides/dead-letter.md": """
from headwater import LineageJob
job = LineageJob("scored")
rows = job.read("visits").select("key", "value")
""",
    "docs/guides/existing-jobs.md": """
from pyspark.sql.avro.functions import from_avro, to_avro
SCHEMA = '{"type": "record", "name": "order", "fields": [{"name": "amount", "type": "double"}]}'
CP = f"checkpoints/{block}"
job = LineageJob(f"existing_{block}")
"""
    + _STREAMS
    + """
key = F.col("key").cast("string")
orders = stream("orders", key.alias("order_id"))
payments = job.read("payments").select(
    F.col("key").cast("string").alias("paid_order"), F.col("timestamp").alias("paid_at"), "lineage"
).withWatermark("paid_at", "1 minute").alias("payments")
rows = orders.select("order_id", F.col("at").alias("ordered_at"), "lineage")
out = orders.select("key", "value", "lineage")
""",
    "docs/guides/joining.md": _SCHEMA,
    "docs/guides/openlineage.md": """
spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.news")
spark.sql("CREATE OR REPLACE TABLE demo.news.articles (id STRING, title STRING) USING iceberg")
""",
    "docs/guides/own-jobs.md": """
job = LineageJob("own")
"""
    + _STREAMS
    + """
visits, ads = stream("visits"), stream("ads")
condition = F.expr("visits.key = ads.key and ads.timestamp > visits.timestamp")
rows = stream("visits")
""",
    "docs/guides/quality.md": """
from headwater import iceberg_table, load_settings
from headwater.openlineage.events import name_of
from headwater.openlineage.run import LineageRun
spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.news")
spark.sql("DROP TABLE IF EXISTS demo.news.articles")
settings = load_settings()
rows = spark.createDataFrame([("a", "b")], "id string, title string")
run_id = "0190c5f2-1111-7222-8333-444455556666"
run = LineageRun.from_settings(settings, [].append, "articles", run_id)
written = iceberg_table("demo.news.articles")
run.start(outputs=[written])
table, folder = name_of(written), f"{folder}/articles"
""",
    "docs/guides/replay.md": """
from pyspark.sql import functions as F
from headwater import parse_json
FIELDS = {"page": "string"}
def clean(visits):
    rows = parse_json(visits, FIELDS)
    raw = F.col("value").alias("raw_value")
    return rows.select("key", F.to_json("data").alias("value"), raw, "error", "lineage")
""",
}
# (page, text) -> the text that is run instead, for what only a user has. Spark's own relative paths
# are relative to the folder in which its session was started.
REPLACED = {
    ("docs/guides/openlineage.md", "s3a://scraped/*.csv"): "{folder}/*.csv",
    ("docs/guides/archiving.md", ".headwater/archive"): "{home}/archive",
    (
        "docs/guides/testing.md",
        "...  # run the pipeline, kill it, run it again",
    ): "run_pipeline(ledger)",
}
