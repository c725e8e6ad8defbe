"""Queries over records: ancestors, impact, verification, and why an output is missing. No JVM."""

from headwater.model import JobOutput
from headwater.tracing.ancestors import RecordSource, RecordSources, trace, walk
from headwater.tracing.fate import Explainer, Fate, Verdict, WhyMissing
from headwater.tracing.follow import OrderCheck, OrderReport, OrderViolation
from headwater.tracing.impact import Impact, ImpactNode, impact
from headwater.tracing.keys import KeyFindings, RecordFinding, Violation
from headwater.tracing.node import RecordState, TraceNode
from headwater.tracing.report import CoverageState, VerifyReport
from headwater.tracing.verify import verify
from headwater.tracing.why_missing import why_missing

__all__ = [
    "CoverageState",
    "Explainer",
    "Fate",
    "Impact",
    "ImpactNode",
    "JobOutput",
    "KeyFindings",
    "OrderCheck",
    "OrderReport",
    "OrderViolation",
    "RecordFinding",
    "RecordSource",
    "RecordSources",
    "RecordState",
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
