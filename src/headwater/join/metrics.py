"""Metrics of a join."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge


class JoinMetrics:
    """Counters and gauges of one join, in their own registry.

    Args:
        sides: the values of the label `side`.
    """

    def __init__(self, output: str, sides: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        rows = Gauge(
            "headwater_join_state_rows",
            "Rows in the state of the join.",
            ("output",),
            registry=self.registry,
        )
        size = Gauge(
            "headwater_join_state_bytes",
            "Size of the state of the join in memory or in files, as reported by Spark.",
            ("output",),
            registry=self.registry,
        )
        dropped = Counter(
            "headwater_join_dropped_rows_total",
            "Late rows that Spark dropped unexpectedly; always 0.",
            ("output",),
            registry=self.registry,
        )
        self._rows, self._bytes = rows.labels(output), size.labels(output)
        self._dropped = dropped.labels(output)
        self._sides = {
            kind: Counter(
                f"headwater_join_{kind}_total", text, ("output", "side"), registry=self.registry
            )
            for kind, text in (
                ("records", "Records read."),
                ("late", "Late records, sent to the late topic."),
                ("malformed", "Malformed records, sent to the dead letter topic."),
            )
        }
        self._output = output
        for side in sides:
            for counter in self._sides.values():
                counter.labels(output, side)

    def state(self, rows: int, size: int) -> None:
        self._rows.set(rows)
        self._bytes.set(size)

    def dropped(self, rows: int) -> None:
        self._dropped.inc(rows)

    def read(self, side: str, records: int, late: int, malformed: int) -> None:
        for kind, count in (("records", records), ("late", late), ("malformed", malformed)):
            self._sides[kind].labels(self._output, side).inc(count)
