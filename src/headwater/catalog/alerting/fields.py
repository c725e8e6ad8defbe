"""The fields of conditions: each with its scope, its type and its meaning.

A condition has one scope: the service, the runs of a job, or a dataset. It is evaluated for each
subject of its scope. If a field has no value, the condition has no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a condition is evaluated for."""

    SERVICE = "service"
    JOB = "job"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class ConditionField:
    """A field of a condition; `kind` is its CEL type."""

    name: str
    scope: Scope
    kind: str
    meaning: str


def _fields(scope: Scope, *rows: tuple[str, str, str]) -> list[ConditionField]:
    return [ConditionField(name, scope, kind, meaning) for name, kind, meaning in rows]


FIELDS: Mapping[str, ConditionField] = {
    each.name: each
    for each in [
        *_fields(
            Scope.SERVICE,
            (
                "marquez_health_check_failed",
                "bool",
                "Whether the service's database does not respond.",
            ),
            (
                "job_without_lineage_percentage",
                "double",
                "Percentage of jobs without any input or output.",
            ),
            (
                "job_lineage_coverage_ratio",
                "double",
                "Jobs whose inputs and outputs are both known, over all jobs.",
            ),
            (
                "record_lineage_coverage_ratio",
                "double",
                "Records with their parents' addresses, over all records of runs that report it.",
            ),
            (
                "typical_record_lineage_coverage_ratio",
                "double",
                "Its median over the last day.",
            ),
            ("job_success_ratio", "double", "Completed runs over those that completed or failed."),
            (
                "recent_job_success_ratio",
                "double",
                "The same, among the latest 100 runs.",
            ),
            ("consumer_lag", "int", "Records that running jobs have not read yet."),
            ("typical_consumer_lag", "double", "Its median over the last day."),
            ("late_records", "int", "Records that arrived after the watermark, in total."),
            ("dead_lettered_records", "int", "Records sent to a dead letter topic, in total."),
            ("out_of_order_records", "int", "Records found out of order, in total."),
            ("failed_runs", "int", "Failed runs in the catalog."),
            ("running_runs", "int", "Running runs."),
            ("jobs", "int", "Jobs in the catalog."),
            ("datasets", "int", "Datasets in the catalog."),
        ),
        *_fields(
            Scope.JOB,
            (
                "job_run.state",
                "string",
                "`NEW`, `RUNNING`, `COMPLETED`, `ABORTED` or `FAILED`.",
            ),
            ("job_run.id", "string", "The run's id."),
            ("job_run.namespace", "string", "Namespace of its job."),
            ("job_run.name", "string", "Name of its job."),
            ("job_run.error", "string", "The message of its error; empty without one."),
            ("job_run.streaming", "bool", "Whether the job is a streaming job."),
            (
                "job_run.duration_seconds",
                "double",
                "From start to end, or until now.",
            ),
            (
                "job_run.typical_duration_seconds",
                "double",
                "Median of up to 20 earlier runs of the job that completed.",
            ),
            ("job_run.seconds_since_event", "double", "Time since its last event."),
            ("job_run.rows_in", "int", "Records that it read."),
            ("job_run.rows_out", "int", "Records that it wrote."),
            (
                "job_run.typical_rows_out",
                "double",
                "Median of up to 20 earlier runs of the job that completed.",
            ),
            (
                "job_run.lineage_coverage_ratio",
                "double",
                "Records with their parents' addresses, over the records that it wrote.",
            ),
            ("job_run.late_rows", "int", "Records that arrived after its watermark."),
            ("job_run.dead_lettered", "int", "Records that it sent to the dead letter topic."),
            ("job_run.order_violations", "int", "Records that it found out of order."),
            ("job_run.events_lost", "int", "Lineage events that its process dropped, of any run."),
            ("job_run.lag", "int", "Records that it has not read yet."),
        ),
        *_fields(
            Scope.DATASET,
            ("dataset.namespace", "string", "Its namespace."),
            ("dataset.name", "string", "Its name."),
            ("dataset.freshness_seconds", "double", "Time since records were last written to it."),
            (
                "dataset.typical_interval_seconds",
                "double",
                "Median time between its last 20 versions.",
            ),
            ("dataset.row_count", "double", "Rows of its last write."),
            (
                "dataset.typical_row_count",
                "double",
                "Median of up to 20 earlier versions.",
            ),
            (
                "dataset.failed_assertions",
                "int",
                "Data quality assertions that failed when they were last reported.",
            ),
        ),
    ]
}
