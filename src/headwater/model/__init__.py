"""Plain words without I/O. Imports the standard library and the error tree, nothing else."""

from headwater.model.address import Address, is_topic_name
from headwater.model.job_output import JobOutput
from headwater.model.lineage import Lineage, record_id
from headwater.model.record import Header, Record
from headwater.model.times import moment

# Where `doctor` sees events arrive: no pipeline of anybody's.
CHECKS_NAMESPACE = "headwater-checks"

__all__ = [
    "CHECKS_NAMESPACE",
    "Address",
    "Header",
    "JobOutput",
    "Lineage",
    "Record",
    "is_topic_name",
    "moment",
    "record_id",
]
