"""Articles from Kafka into the same table, until it is told to stop.

python jobs/spark/stream_write_raw_with_lineage.py
"""

from __future__ import annotations

from headwater.jobs.stream_write_raw_with_lineage import main

if __name__ == "__main__":
    main()
