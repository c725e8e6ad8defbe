"""Values of the lineage service's metrics."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

RUN_STATES = ("NEW", "RUNNING", "COMPLETED", "ABORTED", "FAILED")
# Values of `coverage` in the run facet `headwater_rowLineage`.
ROW_COVERAGES = ("exact", "ranges", "unknown", "off")
# Upper bounds of the ingest histogram: an fsync takes a few milliseconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RATE_SECONDS = 60
_MAX_LATENCIES = 2000


@dataclass(frozen=True, slots=True)
class NamedValue:
    """The value of one job or dataset."""

    namespace: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class CatalogMetrics:
    """Metrics of the catalog's contents at one time. A ratio with a zero denominator is None."""

    at: datetime
    jobs: int = 0
    jobs_complete: int = 0
    jobs_without_lineage: int = 0
    # Jobs whose last run reports row lineage, by its coverage.
    row_lineage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROW_COVERAGES, 0))
    datasets: int = 0
    runs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RUN_STATES, 0))
    recent_ended: int = 0
    recent_completed: int = 0
    records: int = 0
    records_with_lineage: int = 0
    late: int = 0
    dead_lettered: int = 0
    order_violations: int = 0
    # The first datasets and jobs by name, and one value for all others: the age of the stalest
    # dataset, and the sum of the lag.
    freshness: tuple[NamedValue, ...] = ()
    stalest_other: float | None = None
    lag: tuple[NamedValue, ...] = ()
    lag_of_others: int | None = None
    lag_known: bool = False

    @property
    def success_ratio(self) -> float | None:
        """Aborted runs don't count: stopping a stream aborts its run."""
        completed = self.runs.get("COMPLETED", 0)
        return _ratio(completed, completed + self.runs.get("FAILED", 0))

    @property
    def recent_success_ratio(self) -> float | None:
        return _ratio(self.recent_completed, self.recent_ended)

    @property
    def job_coverage(self) -> float | None:
        return _ratio(self.jobs_complete, self.jobs)

    @property
    def record_coverage(self) -> float | None:
        # A run may report more records with lineage than it wrote.
        return _ratio(min(self.records_with_lineage, self.records), self.records)

    @property
    def without_lineage_percentage(self) -> float | None:
        ratio = _ratio(self.jobs_without_lineage, self.jobs)
        return None if ratio is None else 100 * ratio

    @property
    def consumer_lag(self) -> int | None:
        """The sum over all jobs; None if no running job reports its lag."""
        if not self.lag_known:
            return None
        return int(sum(each.value for each in self.lag)) + (self.lag_of_others or 0)

    @property
    def stalest_seconds(self) -> float | None:
        """The maximum over all datasets; None if none was written."""
        ages = [each.value for each in self.freshness]
        if self.stalest_other is not None:
            ages.append(self.stalest_other)
        return max(ages, default=None)


def _ratio(part: int, total: int) -> float | None:
    return part / total if total else None


class IngestMetrics:
    """Rate and latency of ingestion in this process.

    Updated for every request, so `record` is cheap. Times are passed in.
    """

    def __init__(self) -> None:
        self.events = 0
        self.stores = 0
        self.seconds_sum = 0.0
        self.buckets = [0] * len(BUCKETS)
        self._latest: deque[float] = deque(maxlen=_MAX_LATENCIES)
        self._per_second: deque[tuple[int, int]] = deque(maxlen=_RATE_SECONDS + 1)

    def record(self, events: int, seconds: float, now: float) -> None:
        """Count a request whose events were stored after `seconds`."""
        self.events += events
        self.stores += 1
        self.seconds_sum += seconds
        self._latest.append(seconds)
        for i, bound in enumerate(BUCKETS):
            if seconds <= bound:
                self.buckets[i] += 1
                break
        second = int(now)
        if self._per_second and self._per_second[-1][0] == second:
            self._per_second[-1] = (second, self._per_second[-1][1] + events)
        else:
            self._per_second.append((second, events))

    def events_per_second(self, now: float) -> float:
        """The average of the last minute."""
        since = int(now) - _RATE_SECONDS
        return sum(n for second, n in self._per_second if second > since) / _RATE_SECONDS

    def quantile(self, share: float) -> float | None:
        """A quantile of the latest latencies."""
        if not self._latest:
            return None
        ordered = sorted(self._latest)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
