"""The settings of row lineage in jobs that are not changed: configuration of the Spark session.

`RowLineageConf.java` reads them, since no Python of Headwater runs in such a job. A test compares
the names, values and defaults of both.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "spark.headwater.lineage."


@dataclass(frozen=True)
class RowLineageSetting:
    """One key, without the prefix; `values` are all that are allowed, or none if any text is."""

    key: str
    default: str
    description: str
    values: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return PREFIX + self.key


ROW_LINEAGE_SETTINGS = (
    RowLineageSetting(
        "enabled",
        "true",
        "Whether queries get row lineage. A query whose state has lineage keeps it regardless.",
        ("true", "false"),
    ),
    RowLineageSetting(
        "sink",
        "headwater",
        "How streaming queries write to Kafka. `headwater`: with Headwater's sink in place of "
        "Spark's. `headers`: with Spark's sink and one more header; of more than 64 parents the "
        "others are only counted.",
        ("headwater", "headers"),
    ),
    RowLineageSetting(
        "delivery",
        "idempotent",
        "How Headwater's sink writes. `idempotent`: at least once, without duplicates by retries "
        "of the producer. `transactional`: each micro-batch in transactions. `exactly-once`: a "
        "micro-batch that runs again leaves out the records that are in the output; a query for "
        "which this can't be guaranteed does not start.",
        ("idempotent", "transactional", "exactly-once"),
    ),
    RowLineageSetting(
        "jobVersion", "v1.0.0", "Version of the job in the lineage. The job's name is its query's."
    ),
    RowLineageSetting(
        "stamp",
        "compact",
        "Headers that Headwater's sink writes. `compact`: `lineage` alone; the job of each run is "
        "in the topic of runs. `full`: also `job_name`, `job_version`, `batch_version` "
        "and `parent_lineage`.",
        ("compact", "full"),
    ),
    RowLineageSetting(
        "runsTopic",
        "headwater-runs",
        "Compacted topic with the job of each run, in the cluster of the output. Queries look for "
        "it under the name of the setting `kafka.runs_topic`.",
    ),
    RowLineageSetting(
        "inheritHeaders",
        "false",
        "Headers that Headwater's sink copies from the parent of a record. `true`: `traceparent`, "
        "`tracestate` and `baggage`. A comma-separated list: further names, in which `*` stands "
        "for any text.",
    ),
    RowLineageSetting(
        "stateful",
        "new",
        "Queries that keep state in which lineage is stored (aggregates, stream-stream joins). "
        "`new`: those with a new checkpoint get lineage. `never`: none does, so that they can run "
        "without the extension later.",
        ("new", "never"),
    ),
    RowLineageSetting(
        "disabledQueries", "", "Names of queries without row lineage, separated by commas."
    ),
)
