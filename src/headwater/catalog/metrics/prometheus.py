"""The Prometheus metrics of the lineage service.

Every family is exposed from the start, also by an empty service; a ratio with a zero denominator is
NaN. The number of series is bounded: the first jobs and datasets have their own series, all others
share the series `other` without a namesingest. Ids, offsets and times are never labels.
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

from headwater.catalog.metrics.values import (
    BUCKETS,
    ROW_COVERAGES,
    RUN_STATES,
    CatalogMetrics,
    IngestMetrics,
    NamedValue,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ALERT_STATES = ("ok", "pending", "firing", "no data", "error")
OTHER = "other"
# Longer names are cut: Prometheus stores label values with every series.
_MAX_LABEL_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Everything that `/metrics` exposes."""

    catalog: CatalogMetrics
    ingest: IngestMetrics
    version: str
    alerts: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    # Unix time; 0 if the rules have not been evaluated yet, NaN without rules.
    alerts_evaluated: float = nan
    ready: bool = True


def exposition(snapshot: MetricsSnapshot) -> bytes:
    """The metrics in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(snapshot))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot, catalog = self._snapshot, self._snapshot.catalog
        info = GaugeMetricFamily("headwater_info", "The version of Headwater.", labels=["version"])
        info.add_metric([snapshot.version], 1)
        yield info
        yield GaugeMetricFamily(
            "headwater_ready",
            "1 if this process can store events; 0 while it stops, or if the database has the "
            "schema of another version.",
            value=int(snapshot.ready),
        )
        yield GaugeMetricFamily(
            "headwater_job_success_ratio",
            "Ratio of completed runs to completed and failed runs, of all stored runs.",
            value=_number(catalog.success_ratio),
        )
        coverage = GaugeMetricFamily(
            "headwater_lineage_coverage_ratio",
            "Ratio of jobs with known inputs and outputs to all jobs; ratio of records with "
            "lineage to all records of runs that report it.",
            labels=["of"],
        )
        coverage.add_metric(["jobs"], _number(catalog.job_coverage))
        coverage.add_metric(["records"], _number(catalog.record_coverage))
        yield coverage
        yield GaugeMetricFamily("headwater_datasets", "Number of datasets.", value=catalog.datasets)
        yield GaugeMetricFamily("headwater_jobs", "Number of jobs.", value=catalog.jobs)
        yield GaugeMetricFamily(
            "headwater_jobs_without_lineage",
            "Jobs with neither a known input nor a known output.",
            value=catalog.jobs_without_lineage,
        )
        rows = GaugeMetricFamily(
            "headwater_jobs_row_lineage",
            "Jobs whose last run reports row lineage, by its coverage.",
            labels=["coverage"],
        )
        for kind in ROW_COVERAGES:
            rows.add_metric([kind], catalog.row_lineage.get(kind, 0))
        yield rows
        runs = GaugeMetricFamily("headwater_runs", "Number of runs.", labels=["state"])
        for state in RUN_STATES:
            runs.add_metric([state], catalog.runs.get(state, 0))
        yield runs
        yield from self._named()
        yield from self._totals()
        yield from self._ingest()
        yield from self._alerts()

    def _named(self) -> Iterator[Metric]:
        catalog = self._snapshot.catalog
        freshness = GaugeMetricFamily(
            "headwater_dataset_freshness_seconds",
            "Seconds since the dataset was last written; `other` has the maximum of all others.",
            labels=["namespace", "dataset"],
        )
        _add(freshness, catalog.freshness, catalog.stalest_other)
        yield freshness
        lag = GaugeMetricFamily(
            "headwater_consumer_lag_records",
            "Records that a running job has not read yet; `other` has the sum of all others.",
            labels=["namespace", "job_name"],  # Prometheus sets `job` itself
        )
        _add(lag, catalog.lag, catalog.lag_of_others)
        yield lag

    def _totals(self) -> Iterator[Metric]:
        catalog = self._snapshot.catalog
        for name, text, value in (
            ("late_records", "Records later than the watermark.", catalog.late),
            (
                "dead_lettered_records",
                "Records sent to a dead letter topic.",
                catalog.dead_lettered,
            ),
            (
                "out_of_order_records",
                "Records that were out of order within their key.",
                catalog.order_violations,
            ),
        ):
            yield CounterMetricFamily(f"headwater_{name}_total", text, value=value)

    def _ingest(self) -> Iterator[Metric]:
        ingest = self._snapshot.ingest
        yield CounterMetricFamily(
            "headwater_ingest_events_total",
            "Events that this process stored.",
            value=ingest.events,
        )
        seconds = HistogramMetricFamily(
            "headwater_ingest_seconds", "Time to store the events of a request."
        )
        total = 0
        buckets = []
        for bound, count in zip(BUCKETS, ingest.buckets, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        seconds.add_metric([], [*buckets, ("+Inf", float(ingest.stores))], ingest.seconds_sum)
        yield seconds

    def _alerts(self) -> Iterator[Metric]:
        alerts = GaugeMetricFamily(
            "headwater_alerts", "Alerts of the rules file by state.", labels=["state"]
        )
        for state in ALERT_STATES:
            alerts.add_metric([state], self._snapshot.alerts.get(state, 0))
        yield alerts
        yield GaugeMetricFamily(
            "headwater_alerts_evaluated_timestamp_seconds",
            "When this process last evaluated all alert rules; 0 if it has not, NaN without rules. "
            "Only one of several services evaluates.",
            value=self._snapshot.alerts_evaluated,
        )
        messages = CounterMetricFamily(
            "headwater_alert_messages_total",
            "Alert messages that this process sent or gave up, and failed attempts.",
            labels=["outcome"],
        )
        for outcome in ("sent", "failed", "given up"):
            messages.add_metric([outcome], self._snapshot.messages.get(outcome, 0))
        yield messages


def _number(value: float | None) -> float:
    return nan if value is None else value


def _add(family: GaugeMetricFamily, named: Iterable[NamedValue], others: float | None) -> None:
    seen: set[tuple[str, str]] = set()
    for each in named:
        labels = (_label(each.namespace), _label(each.name))
        # Cut names may be equal: a duplicate series is invalid.
        if labels not in seen:
            seen.add(labels)
            family.add_metric(labels, each.value)
    if others is not None:
        family.add_metric(["", OTHER], others)


def _label(text: str) -> str:
    cut = text[:_MAX_LABEL_CHARACTERS]
    # A lone surrogate can't be encoded and would fail the scrape.
    return cut.encode("utf-8", "replace").decode()
