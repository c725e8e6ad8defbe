"""Articles from Kafka into the same table, until the job is stopped.

python jobs/spark/stream_write_raw_with_lineage.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobs.spark.openlineage_config import add_lineage_metadata, create_spark_session_with_lineage

from headwater.jobs.stream_write_raw_with_lineage import main

if __name__ == "__main__":
    spark = create_spark_session_with_lineage("StreamWriteRawWithLineage")
    add_lineage_metadata(
        spark,
        job_type="streaming",
        source_system="kafka",
        target_system="iceberg",
        description="Streaming job with OpenLineage tracking",
        location=__file__,
    )
    main()
