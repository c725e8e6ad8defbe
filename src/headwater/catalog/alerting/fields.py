"""The names that conditions know: each with its scope, its kind and what it means.

A condition is about one kind of thing: the service as a whole, the runs of a job, or a dataset. It
is evaluated for each of them. A value that is not known leaves the condition without data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a condition is about."""

    SERVICE = "service"
    JOB = "job"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a condition; `kind` is CEL's."""

    name: str
    scope: Scope
    kind: str
    meaning: str


def _named(scope: Scope, *rows: tuple[str, str, str]) -> list[Name]:
    return [Name(name, scope, kind, meaning) for name, kind, meaning in rows]


NAMES: Mapping[str, Name] = {
    each.name: each
    for each in [
        *_named(
            Scope.SERVICE,
            (
                "marquez_health_check_failed",
                "bool",
                "Whether the service's database does not answer.",
            ),
            (
                "job_without_lineage_percentage",
                "double",
                "Jobs without any input or output, of all jobs, in percent.",
            ),
            (
                "job_lineage_coverage_ratio",
                "double",
                "Jobs whose inputs and outputs are both known, over all jobs.",
            ),
            (
                "record_lineage_coverage_ratio",
                "double",
                "Records with their parents' addresses, over all records of runs that tell it.",
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
            ("consumer_lag", "int", "Records that running jobs have yet to read."),
            ("typical_consumer_lag", "double", "Its median over the last day."),
            ("late_records", "int", "Records that came behind a watermark, ever."),
            ("dead_lettered_records", "int", "Records that went to a dead letter, ever."),
            ("out_of_order_records", "int", "Records found out of order, ever."),
            ("failed_runs", "int", "Runs that are kept and failed."),
            ("running_runs", "int", "Runs that go on."),
            ("jobs", "int", "Jobs that are known."),
            ("datasets", "int", "Datasets that are known."),
        ),
        *_named(
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
            ("job_run.streaming", "bool", "Whether the job says that it streams."),
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
            ("job_run.rows_in", "int", "Records that it has read."),
            ("job_run.rows_out", "int", "Records that it has written."),
            (
                "job_run.typical_rows_out",
                "double",
                "Median of up to 20 earlier runs of the job that completed.",
            ),
            (
                "job_run.lineage_coverage_ratio",
                "double",
                "Of the records that it has written, those with their parents' addresses.",
            ),
            ("job_run.late_rows", "int", "Records that came too late for it."),
            ("job_run.dead_lettered", "int", "Records that it sent to the dead letter."),
            ("job_run.order_violations", "int", "Records that it found out of order."),
            ("job_run.events_lost", "int", "Lineage events that its process dropped, of any run."),
            ("job_run.lag", "int", "Records that it has yet to read."),
        ),
        *_named(
            Scope.DATASET,
            ("dataset.namespace", "string", "Its namespace."),
            ("dataset.name", "string", "Its name."),
            ("dataset.freshness_seconds", "double", "Time since it was last written."),
            (
                "dataset.typical_interval_seconds",
                "double",
                "Median time between its last 20 versions.",
            ),
            ("dataset.row_count", "double", "Rows that were last written to it."),
            (
                "dataset.typical_row_count",
                "double",
                "Median of up to 20 earlier versions.",
            ),
            (
                "dataset.failed_assertions",
                "int",
                "Assertions on its quality that failed when they were last told.",
            ),
        ),
    ]
}
