"""Plain values without I/O. Imports the standard library and the error tree, nothing else."""

from headwater.model.address import Address, TopicPartition, is_topic_name
from headwater.model.job_output import JobOutput
from headwater.model.lineage import Lineage, record_id
from headwater.model.record import Header, Record
from headwater.model.times import from_epoch_ms

# Where `doctor` sees events arrive: no pipeline of anybody's.
CHECKS_NAMESPACE = "headwater-checks"

__all__ = [
    "CHECKS_NAMESPACE",
    "Address",
    "Header",
    "JobOutput",
    "Lineage",
    "Record",
    "TopicPartition",
    "from_epoch_ms",
    "is_topic_name",
    "record_id",
]
