"""The questions: where a record comes from, what came of it, what became of one that is not there,
and whether all that went in came out. No JVM."""

from headwater.model import JobOutput
from headwater.trace.ancestry import trace
from headwater.trace.descendants import Impact, ImpactNode, impact
from headwater.trace.fate import Explainer, Fate, Verdict, WhyMissing
from headwater.trace.follow import Found, OrderProof, OrderReport
from headwater.trace.keys import Finding, KeyFindings, Violation
from headwater.trace.missing import why_missing
from headwater.trace.node import State, TraceNode
from headwater.trace.proof import verify
from headwater.trace.report import Coverage, VerifyReport
from headwater.trace.walk import Source, Sources, walk

__all__ = [
    "Coverage",
    "Explainer",
    "Fate",
    "Finding",
    "Found",
    "Impact",
    "ImpactNode",
    "JobOutput",
    "KeyFindings",
    "OrderProof",
    "OrderReport",
    "Source",
    "Sources",
    "State",
    "TraceNode",
    "Verdict",
    "VerifyReport",
    "Violation",
    "WhyMissing",
    "impact",
    "trace",
    "verify",
    "walk",
    "why_missing",
]
