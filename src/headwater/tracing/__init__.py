"""The questions: where a record comes from, what came of it, what became of one that is not there,
and whether all that went in came out. No JVM."""

from headwater.model import JobOutput
from headwater.tracing.ancestors import trace
from headwater.tracing.fate import Explainer, Fate, Verdict, WhyMissing
from headwater.tracing.follow import Found, OrderProof, OrderReport
from headwater.tracing.impact import Impact, ImpactNode, impact
from headwater.tracing.keys import Finding, KeyFindings, Violation
from headwater.tracing.node import State, TraceNode
from headwater.tracing.report import Coverage, VerifyReport
from headwater.tracing.verify import verify
from headwater.tracing.walk import Source, Sources, walk
from headwater.tracing.why_missing import why_missing

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
