"""Scraped articles (CSV) into the Iceberg table `demo.news.articles_raw`.

python jobs/spark/batch_write_raw_with_lineage.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobs.spark.openlineage_config import add_lineage_metadata, create_spark_session_with_lineage

from headwater.jobs.batch_write_raw_with_lineage import write_articles

if __name__ == "__main__":
    spark = create_spark_session_with_lineage(
        app_name="BatchWriteRawWithLineage",
        additional_configs={"spark.sql.adaptive.enabled": "true"},
    )
    add_lineage_metadata(
        spark,
        job_type="batch",
        source_system="files",
        target_system="iceberg",
        description="Batch job with OpenLineage tracking",
        location=__file__,
    )
    counts = write_articles(spark)
    print(f"{counts.read} rows read, {counts.rejected} of them rejected")
