"""`trace`: the records that a record was made from, back to those that no job made."""

from __future__ import annotations

from headwater.kafka import RecordReader
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing.archived import sources_of
from headwater.tracing.node import MAX_DEPTH, TraceNode
from headwater.tracing.walk import walk

# At a millisecond each, some ten seconds.
MAX_RECORDS = 10_000


def trace(
    address: Address,
    settings: Settings,
    *,
    reader: RecordReader | None = None,
    max_records: int = MAX_RECORDS,
    max_depth: int = MAX_DEPTH,
    values: bool = False,
) -> TraceNode:
    """The ancestry of a record, read from Kafka and the archives; no Spark is started.

    Claims that do not hold end as nodes with the state `unverified`, records that are gone as
    `expired`; they raise nothing. A record is read once, however many were made from it.

    Args:
        reader: one that is kept; the first record of a topic takes longer than those after it.
        values: keep the records' values in the nodes.

    Raises:
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
        ArchiveError: an archive is damaged, or another table.
        MissingPartError: a record may be in an archive, and the extra `index` is not installed.
    """
    if reader is None:
        with RecordReader(settings.kafka) as own:
            return trace(
                address,
                settings,
                reader=own,
                max_records=max_records,
                max_depth=max_depth,
                values=values,
            )
    sources = sources_of(reader, settings)
    return walk(address, sources, max_records=max_records, max_depth=max_depth, values=values)
