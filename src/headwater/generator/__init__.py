"""Seeded test data: visits, ads, clicks and articles. Pure: no Kafka, no Spark, no clock."""

from headwater.generator.blemishes import BLOCK_ROWS, MALFORMED_VALUE, Blemishes
from headwater.generator.kind import Generated, RecordKind
from headwater.generator.stream import KINDS, generate
from headwater.generator.visits import VISITS_PER_ROUND

__all__ = [
    "BLOCK_ROWS",
    "KINDS",
    "MALFORMED_VALUE",
    "VISITS_PER_ROUND",
    "Blemishes",
    "Generated",
    "RecordKind",
    "generate",
]
