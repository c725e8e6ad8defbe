"""What the lineage service tells Prometheus.

Every family is there from the start, on an empty service, too; a ratio of nothing is NaN. Labels
are bounded: names of jobs and datasets are those of the first so many, and all others together
are `other` without a namespace. No id, offset or time is a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import nan

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headwater.catalog.metrics.values import BUCKETS, RUN_STATES, Measures, Named, Pace

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ALERT_STATES = ("ok", "pending", "firing", "no data", "error")
OTHER = "other"
# Longer names are cut: a label of thousands of characters helps nobody and costs everybody.
_MAX_LABEL_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Everything that `/metrics` shows."""

    measures: Measures
    pace: Pace
    version: str
    alerts: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    # Seconds since 1970; 0: this service has rules and has not evaluated them, NaN: it has none.
    alerts_evaluated: float = nan


def exposition(figures: ServiceFigures) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(figures))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, figures: ServiceFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures, measures = self._figures, self._figures.measures
        info = GaugeMetricFamily("headwater_info", "Which Headwater this is.", labels=["version"])
        info.add_metric([figures.version], 1)
        yield info
        yield GaugeMetricFamily(
            "headwater_job_success_ratio",
            "Completed runs over those that completed or failed and are kept.",
            value=_number(measures.success_ratio),
        )
        coverage = GaugeMetricFamily(
            "headwater_lineage_coverage_ratio",
            "Jobs whose inputs and outputs are both known over all jobs; records that carry the "
            "addresses of their parents over all records of runs that tell it.",
            labels=["of"],
        )
        coverage.add_metric(["jobs"], _number(measures.job_coverage))
        coverage.add_metric(["records"], _number(measures.record_coverage))
        yield coverage
        yield GaugeMetricFamily(
            "headwater_datasets", "Datasets that are known.", value=measures.datasets
        )
        yield GaugeMetricFamily("headwater_jobs", "Jobs that are known.", value=measures.jobs)
        yield GaugeMetricFamily(
            "headwater_jobs_without_lineage",
            "Jobs of which neither an input nor an output is known.",
            value=measures.jobs_without_lineage,
        )
        runs = GaugeMetricFamily("headwater_runs", "Runs that are kept.", labels=["state"])
        for state in RUN_STATES:
            runs.add_metric([state], measures.runs.get(state, 0))
        yield runs
        yield from self._named()
        yield from self._totals()
        yield from self._ingest()
        yield from self._alerts()

    def _named(self) -> Iterator[Metric]:
        measures = self._figures.measures
        freshness = GaugeMetricFamily(
            "headwater_dataset_freshness_seconds",
            "Time since a dataset was last written; of all others, the stalest.",
            labels=["namespace", "dataset"],
        )
        _add(freshness, measures.freshness, measures.stalest_other)
        yield freshness
        lag = GaugeMetricFamily(
            "headwater_consumer_lag_records",
            "Records that a running job has yet to read; of all others, the sum.",
            labels=["namespace", "job_name"],  # `job` is a name of Prometheus' own
        )
        _add(lag, measures.lag, measures.lag_of_others)
        yield lag

    def _totals(self) -> Iterator[Metric]:
        measures = self._figures.measures
        for name, text, value in (
            ("late_records", "Records that came behind the watermark.", measures.late),
            (
                "dead_lettered_records",
                "Records that went to the dead letter.",
                measures.dead_lettered,
            ),
            (
                "out_of_order_records",
                "Records that runs found out of the order of their key.",
                measures.order_violations,
            ),
        ):
            yield CounterMetricFamily(f"headwater_{name}_total", text, value=value)

    def _ingest(self) -> Iterator[Metric]:
        pace = self._figures.pace
        yield CounterMetricFamily(
            "headwater_ingest_events_total",
            "Events that this process has stored.",
            value=pace.events,
        )
        seconds = HistogramMetricFamily(
            "headwater_ingest_seconds", "Time until the events of a request were stored."
        )
        below = 0
        buckets = []
        for bound, count in zip(BUCKETS, pace.buckets, strict=True):
            below += count
            buckets.append((str(bound), float(below)))
        seconds.add_metric([], [*buckets, ("+Inf", float(pace.stores))], pace.seconds_sum)
        yield seconds

    def _alerts(self) -> Iterator[Metric]:
        alerts = GaugeMetricFamily(
            "headwater_alerts", "Alerts of the rules file, by how they stand.", labels=["state"]
        )
        for state in ALERT_STATES:
            alerts.add_metric([state], self._figures.alerts.get(state, 0))
        yield alerts
        yield GaugeMetricFamily(
            "headwater_alerts_evaluated_timestamp_seconds",
            "When this process last evaluated all rules of alerts; 0 if it has not, NaN without "
            "rules. Of several services one evaluates.",
            value=self._figures.alerts_evaluated,
        )
        messages = CounterMetricFamily(
            "headwater_alert_messages_total",
            "Messages of alerts that this process has sent or given up, and its tries that failed.",
            labels=["outcome"],
        )
        for outcome in ("sent", "failed", "given up"):
            messages.add_metric([outcome], self._figures.messages.get(outcome, 0))
        yield messages


def _number(value: float | None) -> float:
    return nan if value is None else value


def _add(family: GaugeMetricFamily, named: Iterable[Named], others: float | None) -> None:
    seen: set[tuple[str, str]] = set()
    for each in named:
        labels = (_label(each.namespace), _label(each.name))
        # Two names that are alike once they are cut would be one series twice.
        if labels not in seen:
            seen.add(labels)
            family.add_metric(labels, each.value)
    if others is not None:
        family.add_metric(["", OTHER], others)


def _label(text: str) -> str:
    cut = text[:_MAX_LABEL_CHARACTERS]
    # What can't be written as UTF-8 would fail the whole page.
    return cut.encode("utf-8", "replace").decode()
