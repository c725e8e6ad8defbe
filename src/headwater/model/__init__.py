"""Plain values without I/O. Imports only the standard library and the error tree."""

from headwater.model.address import Address, AddressRange, TopicPartition
from headwater.model.record import (
    Header,
    JobOutput,
    Lineage,
    Record,
    from_epoch_ms,
    record_id,
)
from headwater.model.topic_names import is_topic_name

# The namespace of the events that `doctor` sends to check the service.
CHECKS_NAMESPACE = "headwater-checks"

__all__ = [
    "CHECKS_NAMESPACE",
    "Address",
    "AddressRange",
    "Header",
    "JobOutput",
    "Lineage",
    "Record",
    "TopicPartition",
    "from_epoch_ms",
    "is_topic_name",
    "record_id",
]
