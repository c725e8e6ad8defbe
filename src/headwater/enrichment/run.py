"""Running a join: its state store, its topics, and whoever watches it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.enrichment.idle import Heartbeats, heartbeat_topic
from headwater.enrichment.join import enrich
from headwater.enrichment.lateness import RULE_OF_LATENESS, register_functions
from headwater.enrichment.notes import keep_rule
from headwater.enrichment.rule import JoinRule
from headwater.enrichment.state import StateLimits, StateWatch
from headwater.enrichment.times import Times
from headwater.errors import InputError
from headwater.kafka import describe_topic, ensure_topic
from headwater.metrics import JoinMetrics
from headwater.pipeline import LineageJob, OnFailure
from headwater.settings import Settings

_STORES = "org.apache.spark.sql.execution.streaming.state"
# On disk and off the heap, so that a long wait costs no garbage collection; with a log of changes,
# a batch uploads what it changed and not whole files.
STATE_STORES: Mapping[str, Mapping[str, str]] = {
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": f"{_STORES}.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "memory": {
        "spark.sql.streaming.stateStore.providerClass": f"{_STORES}.HDFSBackedStateStoreProvider",
    },
}
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Join:
    """All that a join is run with besides its rule."""

    rule: JoinRule
    output: str
    checkpoint: Path | str
    trigger: Mapping[str, Any]
    on_failure: OnFailure = "stop"
    starting_offsets: str = "earliest"
    max_records_per_batch: int | None = None
    idle_timeout: timedelta | None = None
    limits: StateLimits = field(default_factory=StateLimits)
    state_store: str = "rocksdb"
    # Fixed by the first start, with the checkpoint.
    state_partitions: int | None = None

    @property
    def location(self) -> str:
        if isinstance(self.checkpoint, Path):
            return f"file://{self.checkpoint.absolute()}"
        return self.checkpoint


def run_join(
    join: Join,
    job: LineageJob,
    settings: Settings,
    *,
    say: Callable[[str], None] = lambda line: None,
    metrics: JoinMetrics | None = None,
) -> None:
    """Run until the query ends or is stopped.

    Raises:
        CheckpointError: the checkpoint belongs to another join.
        StateLimitError: the state has reached its limit; the batch is done, and a start with
            a higher one goes on.
        QueryFailedError: the query failed.
    """
    rule = join.rule
    times = Times(rule, join.checkpoint)
    if isinstance(join.checkpoint, Path):
        keep_rule(join.checkpoint, rule)
        times.restore(join.checkpoint, settings)
    beats = heartbeat_topic(join.output)
    if settings.jobs.create_topics:
        ensure_topic(beats, 1, settings)
    register_functions(job.spark, join.location)
    inputs = {
        topic: job.read(
            topic,
            starting_offsets=starting_offsets_of(topic, beats, join.starting_offsets),
            beside=(beats,),
            max_records_per_batch=join.max_records_per_batch,
        )
        for topic in (rule.visits, rule.ads)
    }
    rows = enrich(inputs[rule.visits], inputs[rule.ads], rule, heartbeats=beats)
    watch = StateWatch(join.limits, say, metrics)
    partitions = join.state_partitions or max(
        describe_topic(topic, settings).partitions for topic in inputs
    )
    configuration = {
        **STATE_STORES[join.state_store],
        **RULE_OF_LATENESS,
        PARTITIONS_SETTING: str(partitions),
    }
    heartbeats = Heartbeats(times, beats, join.idle_timeout, settings, say)

    def on_batch(progress: Mapping[str, Any]) -> None:
        heartbeats.take(progress)
        watch.take(progress)

    with configured(job.spark, configuration), heartbeats:
        job.write(
            rows,
            join.output,
            trigger=join.trigger,
            on_failure=join.on_failure,
            late_output=True,
            one_per_first_parent=rule.matches == "first",
            on_batch=on_batch,
        )


def starting_offsets_of(topic: str, heartbeats: str, text: str) -> str:
    """Spark wants the offsets of the topics of a source, of all and of no others."""
    if text in ("earliest", "latest"):
        return text
    given = json.loads(text)
    if topic not in given:
        raise InputError(f"--starting-offsets does not name the topic {topic!r}: {text}")
    return json.dumps({topic: given[topic], heartbeats: {"0": -2}})


@contextmanager
def configured(spark: SparkSession, configuration: Mapping[str, str]) -> Iterator[None]:
    """The session's settings, changed while the body runs; a query keeps those of its start."""
    before = {name: spark.conf.get(name, None) for name in configuration}
    for name, value in configuration.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)
