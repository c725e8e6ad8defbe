"""The values of names that are about the service as a whole."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from headwater.catalog.alerting.service_metrics import ServiceMetrics
from headwater.catalog.store import points
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Json
from headwater.errors import QueryTimeoutError

_LOG = logging.getLogger("headwater.catalog.alerting")

UNREACHABLE: Json = {"marquez_health_check_failed": True}
_REACHABLE: Json = {"marquez_health_check_failed": False}


async def service_values(figures: ServiceMetrics, pool: Pool) -> Json:
    """Raises:
    DatabaseUnavailableError: the database does not answer.
    """
    try:
        found = await figures.measures()
        async with pool.connection() as connection:
            usual = await points.typical(connection, datetime.now(UTC))
    except QueryTimeoutError as error:
        # Counting takes too long; what is about jobs and datasets can be evaluated all the same.
        _LOG.warning("alerts: no figures of the service: %s", error)
        return _REACHABLE
    return {
        **_REACHABLE,
        "job_without_lineage_percentage": found.without_lineage_percentage,
        "job_lineage_coverage_ratio": found.job_coverage,
        "record_lineage_coverage_ratio": found.record_coverage,
        "typical_record_lineage_coverage_ratio": usual.get("coverage"),
        "job_success_ratio": found.success_ratio,
        "recent_job_success_ratio": found.recent_success_ratio,
        "consumer_lag": found.consumer_lag,
        "typical_consumer_lag": usual.get("lag"),
        "late_records": found.late,
        "dead_lettered_records": found.dead_lettered,
        "out_of_order_records": found.order_violations,
        "failed_runs": found.runs.get("FAILED", 0),
        "running_runs": found.runs.get("RUNNING", 0),
        "jobs": found.jobs,
        "datasets": found.datasets,
    }
