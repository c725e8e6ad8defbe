"""The words of each visited page's name: `category_7` gives two records."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob


def words(visits: DataFrame) -> DataFrame:
    page = F.get_json_object(visits.value.cast("string"), "$.page")
    return visits.select("key", F.explode(F.split(page, "_")).alias("value"))


if __name__ == "__main__":
    job = LineageJob("page_words", version="1.0.0")
    job.write(words(job.read("visits")), "page-words", trigger={"availableNow": True})
