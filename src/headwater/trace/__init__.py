"""The questions: where a record comes from, and whether all that went in came out. No JVM."""

from headwater.trace.ancestry import trace
from headwater.trace.node import State, TraceNode
from headwater.trace.proof import verify
from headwater.trace.report import Coverage, VerifyReport
from headwater.trace.walk import Source, Sources, walk

__all__ = [
    "Coverage",
    "Source",
    "Sources",
    "State",
    "TraceNode",
    "VerifyReport",
    "trace",
    "verify",
    "walk",
]
