"""What the order proof counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter

VIOLATIONS = "headwater_order_violations_total"
JUDGED = "headwater_order_judged_records_total"


class OrderMetrics:
    """Counters of one topic, in a registry of their own.

    Labels are bounded: the one topic, and the kinds that are named at the start. Each kind is
    there from the start with 0, so that a rate can be told from the first violation on.
    """

    def __init__(self, topic: str, kinds: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        violations = Counter(
            VIOLATIONS,
            "Records that are out of order, missing between others of their key, or copies.",
            ("topic", "kind"),
            registry=self.registry,
        )
        judged = Counter(
            JUDGED, "Records whose order was judged.", ("topic",), registry=self.registry
        )
        self._violations = {kind: violations.labels(topic, kind) for kind in kinds}
        self._judged = judged.labels(topic)
        self._told: dict[str, int] = dict.fromkeys(self._violations, 0)
        self._told_judged = 0

    def update(self, judged: int, violations: Mapping[str, int]) -> None:
        """Take the totals as they stand now; they never fall."""
        self._judged.inc(judged - self._told_judged)
        self._told_judged = judged
        for kind, count in violations.items():
            self._violations[kind].inc(count - self._told[kind])
            self._told[kind] = count
