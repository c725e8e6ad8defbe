"""OpenLineage events of job runs, and their delivery to the catalog. Runs without a JVM.

emitter = Emitter.from_settings(settings)
run = LineageRun.from_settings(settings, emitter.emit, "my_job", run_id)
run.start([kafka_topic("localhost:9092", "visits").dataset()], [])
run.complete()
emitter.close()
"""

from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import (
    Dataset,
    DatasetName,
    Event,
    file_location,
    kafka_topic,
    run_event,
)
from headwater.openlineage.facets import lineage_facet
from headwater.openlineage.run import LineageRun

__all__ = [
    "Dataset",
    "DatasetName",
    "Emitter",
    "Event",
    "LineageRun",
    "file_location",
    "kafka_topic",
    "lineage_facet",
    "run_event",
]
