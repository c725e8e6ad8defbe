"""Plain words without I/O. Imports the standard library and the error tree, nothing else."""

from headwater.model.address import Address, is_topic_name
from headwater.model.job_output import JobOutput
from headwater.model.lineage import Lineage, record_id
from headwater.model.record import Header, Record

__all__ = ["Address", "Header", "JobOutput", "Lineage", "Record", "is_topic_name", "record_id"]
