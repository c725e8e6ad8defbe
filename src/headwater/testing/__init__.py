"""Public helpers for testing pipelines: numbered records, lineage assertions, a TCP proxy.

`pytest_plugins = ["headwater.testing.fixtures"]` adds a real broker and a Spark session.
"""

from headwater.kafka import RecordProducer, read_topic
from headwater.testing.ledger import Ledger, LedgerReport, LedgerWatch
from headwater.testing.lineage import assert_lineage
from headwater.testing.ports import free_port
from headwater.testing.proxy import TcpProxy

__all__ = [
    "Ledger",
    "LedgerReport",
    "LedgerWatch",
    "RecordProducer",
    "TcpProxy",
    "assert_lineage",
    "free_port",
    "read_topic",
]
